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

from uncork.core.base.machine import Machine
from uncork.core.costmodel.transfer_time import gain_by, rows_of, sparing
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.edit import Edit
from uncork.core.edits.pipeline import GatherLast, VectorizeMap
from uncork.core.edits.step import MapOnDevice
from uncork.core.evidence.model import Transfer
from uncork.core.evidence.stage import InStep
from uncork.optimizations.base.preconditions import no_function_edit, no_pipeline, no_step_edit
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

_SOURCE: Final = {
    "fit": "dataset = dataset_of_bytes  # without the last map\n"
    "model = keras.Sequential([keras.layers.Rescaling(1 / 255), ...])",
    "custom_loop": "dataset = dataset_of_bytes  # without the last map\n"
    "@tf.function\n"
    "def train_step(images, labels):\n"
    "    images = tf.cast(images, tf.float32) / 255  # what that map did",
}


@final
class MakeOnDevice(Optimization):
    """Send what the last map takes, not what it makes, and let the step make it."""

    name = "map_on_device"
    stage = "host"
    guarantee = "exact"
    at_worst = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Where a good part of the step is waiting for bytes that a map has made more of."""
        transfer = sent(diagnosis, loops=True)
        if isinstance(transfer, Skipped):
            return transfer
        spared = sparing(transfer, diagnosis.stages)
        last = spared.by if spared else None
        if spared is None or last is None or last.in_step is None:
            return Skipped(
                reason="the pipeline does not end with a map that only casts, scales or moves "
                "numbers, and makes more bytes of them"
            )
        in_loop = diagnosis.workload.kind == "custom_loop"
        placement = transfer.placement if in_loop else ""
        edits = to_the_step(last.in_step, diagnosis.workload.pipeline, placement=placement)
        predicted = gain_by(diagnosis, transfer, spared, machine.cpus)
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        return Proposal(
            edits=edits,
            predicted=predicted,
            at=last.at or diagnosis.workload.at,
            why=f"{last.name or 'the last map'} is done on {transfer.device}, and "
            f"{spared.share:.0%} of the bytes need not be sent there",
            source_edit=_SOURCE[diagnosis.workload.kind],
            first="data_on_device" if not in_loop and rows_of(diagnosis) is not None else "",
        )


def sent(
    diagnosis: WorkloadDiagnosis, *, arrays: bool = False, loops: bool = False
) -> Transfer | Skipped:
    """What is sent to the device that trains, where the step could do more than it does.

    Args:
        diagnosis: Of the training.
        arrays: It may be fed by arrays.
        loops: It may be a loop of the user's own, that calls one compiled function for each batch.
    """
    fed = arrays and diagnosis.workload.data == "numpy"
    in_loop = loops and diagnosis.workload.kind == "custom_loop"
    forbidden = no_function_edit(diagnosis) if in_loop else no_step_edit(diagnosis)
    forbidden = forbidden or (None if fed else no_pipeline(diagnosis))
    if forbidden:
        return forbidden
    if in_loop and diagnosis.workload.data_made_anew:
        return Skipped(
            reason="the script makes its dataset anew for each pass, and the map would be traced "
            "each time: make it once, before the loop over epochs, and tune again"
        )
    if diagnosis.workload.called_in_loop:
        return Skipped(reason="fit is called for a few steps at a time, and its data made anew")
    nothing = Skipped(reason="nothing that counts is sent from this host to another device")
    return diagnosis.transfer or nothing


def to_the_step(
    found: InStep, digest: str, *, gathered: bool = False, placement: str = ""
) -> tuple[Edit, ...]:
    """The edits by which the last maps come to be done in the step.

    A shuffle between a map and the batch holds no more for it: what is moved makes more of it.

    Args:
        found: What the step is to do.
        digest: Of the pipeline as it is.
        gathered: The step begins by gathering rows.
        placement: Where the batches of a loop are made.
    """
    edits: list[Edit] = []
    for stage in found.vectorized:
        edits.append(VectorizeMap(stage=stage, expects="" if edits else digest))
    if gathered:
        edits.append(GatherLast(expects="" if edits else digest))
    return (*edits, MapOnDevice(expects=found.digest, placement=placement))
