"""Put the arrays of a training on the device that trains, once, and gather each batch there.

Where the rows that a pipeline picks are in memory as arrays, and the device has room for them, only
the numbers of the rows need be sent. Legal because shuffles, repeats and batches go by position:
they do the same to numbers as to rows, so the same rows come in the same order. What maps make of
a batch is made there, too (see ``map_on_device``). Arrays that ``fit`` is given go through a
pipeline of Keras's, which joins them with numbers of rows already.
"""

from __future__ import annotations

from typing import final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.transfer_time import (
    TransferSaving,
    find_array_offload,
    predict_transfer_gain,
)
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.evidence.model import Transfer
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)
from uncork.optimizations.host.map_on_device import device_map_edits, transfer_or_refusal


@final
class DataOnDeviceOptimization(Optimization):
    """Send the numbers of a batch's rows, not the rows."""

    name = "data_on_device"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Where sending takes a good part of the step, and the device has room for all rows."""
        work, rows = diagnosis.workload, find_array_offload(diagnosis)
        transfer = transfer_or_refusal(diagnosis, allow_arrays=rows is not None)
        if isinstance(transfer, Skipped):
            return transfer
        if rows is None:
            return Skipped(
                reason="the training is not fed by arrays whose rows are only picked, and then "
                "batched, cast, scaled or moved"
            )
        held = rows.resident_bytes
        too_much = _no_room(transfer, held, policy)
        if too_much is not None:
            return too_much
        spared = TransferSaving(share=rows.saved_transfer_share)
        predicted = predict_transfer_gain(diagnosis, transfer, spared, machine.cpus)
        if predicted < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(predicted)
        return Proposal(
            edits=device_map_edits(
                rows, work.pipeline_digest, gathers_rows=work.data_kind == "tf.data"
            ),
            predicted=predicted,
            at=_at(diagnosis),
            rationale=(
                f"{held / 1e6:,.1f} MB of arrays are put on {transfer.device} once, and their "
                "rows "
                "are gathered there"
            ),
            source_edit="with tf.device(device):\n    x_there = tf.constant(x)\n"
            "dataset = tf.data.Dataset.range(len(x)).shuffle(...).batch(n)\n"
            "# and in the training step\nx = tf.gather(x_there, numbers)",
        )


def _no_room(transfer: Transfer, held: int, policy: Policy) -> Skipped | None:
    if transfer.free_device_bytes is None:
        return Skipped(reason=f"how much memory {transfer.device} has left cannot be asked")
    room = policy.memory_share * transfer.free_device_bytes
    if held <= room:
        return None
    return Skipped(
        reason=f"the arrays take {held / 1e9:.1f} GB of the device's memory, the budget is "
        f"{room / 1e9:.1f} GB"
    )


def _at(diagnosis: WorkloadDiagnosis) -> str:
    lines = (s.at for s in diagnosis.stages if s.step_offload and s.kind != "map" and s.at)
    return next(lines, diagnosis.workload.at)
