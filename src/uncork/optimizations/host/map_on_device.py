"""Do the last map of the input pipeline in the training step, on the device that trains.

A map that makes floats of bytes, as most examples do at the end of their pipeline, makes four bytes
of each, and the step waits until all of them have been sent. Sent as they are, they are made into
floats by the same ops in the step, where that takes no time. Legal because the map depends on its
batch alone, and nothing is done behind it but handing on; casting, scaling and moving values about
are all that it may do, so that every device, and XLA, can do it. A map below the batch is called
for whole batches first (see ``vectorize``), in whole or from where images are decoded on. Where the
device has room for all rows (see ``data_on_device``), that spares more, and is tried before. In a
loop of the user's own the batches are made on the device of its step when the loop asks for them.
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
    "    images = tf.cast(images, tf.float32) / 255  # what that map did",
}


@final
class MapOnDeviceOptimization(Optimization):
    """Send what the last map takes, not what it makes, and let the step make it."""

    name = "map_on_device"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Where a good part of the step is waiting for bytes that a map has made more of."""
        transfer = transfer_or_refusal(context, allow_loops=True)
        if isinstance(transfer, Skipped):
            return transfer
        spared = find_transfer_saving(transfer, context.stages)
        last = spared.widening_map if spared else None
        if spared is None or last is None or last.step_offload is None:
            return Skipped(
                reason="the pipeline does not end with a map that only casts, scales or moves "
                "numbers, and makes more bytes of them"
            )
        placement = transfer.placement if context.is_loop else ""
        fits_on_device = not context.is_loop and find_array_offload(context.diagnosis) is not None
        return Proposal(
            edits=device_map_edits(last.step_offload, context.pipeline_digest, placement=placement),
            predicted=predict_transfer_gain(
                context.diagnosis, transfer, spared, context.machine.cpus
            ),
            at=last.at or context.workload.at,
            rationale=f"{last.name or 'the last map'} is done on {transfer.device}, and "
            f"{spared.share:.0%} of the bytes need not be sent there",
            source_edit=_SOURCE[context.workload.kind],
            prerequisite="data_on_device" if fits_on_device else "",
        )


def transfer_or_refusal(
    context: Context, *, allow_arrays: bool = False, allow_loops: bool = False
) -> Transfer | Skipped:
    """What is sent to the device that trains, where the step could do more than it does.

    Args:
        context: Of the training.
        allow_arrays: It may be fed by arrays.
        allow_loops: It may be a loop of the user's own, that calls one compiled function for each
            batch.
    """
    fed = allow_arrays and context.workload.data_kind == "numpy"
    in_loop = allow_loops and context.is_loop
    step_refusal = function_edit_refusal if in_loop else step_edit_refusal
    reason = step_refusal(context) or ("" if fed else pipeline_refusal(context))
    if reason:
        return Skipped(reason=reason)
    if in_loop and context.workload.is_dataset_recreated:
        return Skipped(
            reason="the script makes its dataset anew for each pass, and the map would be traced "
            "each time: make it once, before the loop over epochs, and tune again"
        )
    if context.workload.is_fit_in_loop:
        return Skipped(reason="fit is called for a few steps at a time, and its data made anew")
    nothing = Skipped(reason="nothing that counts is sent from this host to another device")
    return context.diagnosis.transfer or nothing


def device_map_edits(
    step_maps: StepOffload, digest: str, *, gathers_rows: bool = False, placement: str = ""
) -> tuple[Edit, ...]:
    """The edits by which the last maps come to be done in the step.

    A shuffle between a map and the batch holds no more for it: what is moved makes more of it.

    Args:
        step_maps: What the step is to do.
        digest: Of the pipeline as it is.
        gathers_rows: The step begins by gathering rows.
        placement: Where the batches of a loop are made.
    """
    edits: list[Edit] = []
    for stage in step_maps.vectorized_maps:
        edits.append(VectorizeMap(stage=stage, expected_digest="" if edits else digest))
    if gathers_rows:
        edits.append(GatherLast(expected_digest="" if edits else digest))
    return (*edits, MapOnDevice(expected_digest=step_maps.digest, placement=placement))
