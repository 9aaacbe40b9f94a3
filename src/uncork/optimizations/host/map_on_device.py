"""Run the last map of the input pipeline in the training step, on the device.

Most pipelines end with a map from bytes to floats. It makes four bytes of each, and the step waits
until all of them are sent. If the bytes are sent, the same ops convert them in the step, where that
takes no time. Legal because the map depends on its batch alone, and only stages that pass elements
on follow it; it may only cast, scale and move values, so that every device, and XLA, can run it.
Uncork first vectorizes a map before the batch (see ``vectorize``), as a whole or from where images
are decoded. Where all rows fit on the device (see ``data_on_device``), that saves more, and Uncork
tries it first. In the user's own loop the batches are created on the device of its step, when the
loop reads them.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel.transfer_time import (
    find_array_offload,
    find_transfer_saving,
    predict_transfer_gain,
)
from uncork.core.edits.edit import Edit
from uncork.core.edits.pipeline import GatherLast, VectorizeMap
from uncork.core.edits.step import MapOnDevice
from uncork.core.evidence.model import Transfer
from uncork.core.evidence.stage import StepOffload
from uncork.optimizations.base.preconditions import (
    function_edit_refusal,
    pipeline_refusal,
    step_edit_refusal,
)
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

_SOURCE: Final = {
    "fit": "dataset = dataset_of_bytes  # without the last map\n"
    "model = keras.Sequential([keras.layers.Rescaling(1 / 255), ...])",
    "custom_loop": "dataset = dataset_of_bytes  # without the last map\n"
    "@tf.function\n"
    "def train_step(images, labels):\n"
    "    images = tf.cast(images, tf.float32) / 255  # as the last map does",
}


@final
class MapOnDeviceOptimization(Optimization):
    """Send the input of the last map, not its output, and run the map in the step."""

    name = "map_on_device"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it where a large share of the step waits for bytes that a map has multiplied."""
        transfer = transfer_or_refusal(context, allow_loops=True)
        if isinstance(transfer, Skipped):
            return transfer
        saving = find_transfer_saving(transfer, context.stages)
        last = saving.widening_map if saving else None
        if saving is None or last is None or last.step_offload is None:
            return Skipped(
                reason="the pipeline does not end with a map that only casts, scales or moves "
                "numbers, and so increases their bytes"
            )
        placement = transfer.placement if context.is_loop else ""
        fits_on_device = not context.is_loop and find_array_offload(context.diagnosis) is not None
        return Proposal(
            edits=device_map_edits(last.step_offload, context.pipeline_digest, placement=placement),
            predicted=predict_transfer_gain(
                context.diagnosis, transfer, saving, context.machine.cpus
            ),
            at=last.at or context.workload.at,
            rationale=f"{last.name or 'the last map'} runs on {transfer.device}, which saves "
            f"{saving.share:.0%} of the bytes sent there",
            source_edit=_SOURCE[context.workload.kind],
            prerequisite="data_on_device" if fits_on_device else "",
        )


def transfer_or_refusal(
    context: Context, *, allow_arrays: bool = False, allow_loops: bool = False
) -> Transfer | Skipped:
    """Return the transfer to the device, if the step can take over work of the pipeline.

    Args:
        context: Of the training.
        allow_arrays: Whether arrays may feed the training.
        allow_loops: Whether it may be the user's own loop that calls one compiled function for
            each batch.
    """
    fed = allow_arrays and context.workload.data_kind == "numpy"
    in_loop = allow_loops and context.is_loop
    step_refusal = function_edit_refusal if in_loop else step_edit_refusal
    reason = step_refusal(context) or ("" if fed else pipeline_refusal(context))
    if reason:
        return Skipped(reason=reason)
    if in_loop and context.workload.is_dataset_recreated:
        return Skipped(
            reason="the script recreates its dataset for each pass, and TensorFlow would trace the "
            "map each time: create it once, before the loop over epochs, and tune again"
        )
    if context.workload.is_fit_in_loop:
        return Skipped(reason="each call of fit runs a few steps only, and recreates its dataset")
    nothing = Skipped(reason="the host sends little or nothing to another device")
    return context.diagnosis.transfer or nothing


def device_map_edits(
    step_maps: StepOffload, digest: str, *, gathers_rows: bool = False, placement: str = ""
) -> tuple[Edit, ...]:
    """Build the edits that move the last maps into the step.

    A shuffle between a map and the batch needs no more memory: the moved maps increase the
    bytes.

    Args:
        step_maps: The maps that move into the step.
        digest: Of the pipeline as it is.
        gathers_rows: Whether the step starts by gathering rows.
        placement: Where the batches of a loop are created.
    """
    edits: list[Edit] = []
    for stage in step_maps.vectorized_maps:
        edits.append(VectorizeMap(stage=stage, expected_digest="" if edits else digest))
    if gathers_rows:
        edits.append(GatherLast(expected_digest="" if edits else digest))
    return (*edits, MapOnDevice(expected_digest=step_maps.digest, placement=placement))
