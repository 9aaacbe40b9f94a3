"""Copy the arrays of a training to the device once, and gather each batch there.

Where a pipeline picks rows of arrays in memory, and the arrays fit on the device, only the indices
of the rows are sent. Legal because shuffle, repeat and batch work on positions: they do the same to
indices as to rows, so the same rows come in the same order. Maps of whole batches also run on the
device (see ``map_on_device``). Arrays passed to ``fit`` go through a pipeline of Keras's, which
uses indices already.
"""

from __future__ import annotations

from typing import final

from uncork.core.costmodel.transfer_time import (
    TransferSaving,
    find_array_offload,
    predict_transfer_gain,
)
from uncork.core.evidence.model import Transfer
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped
from uncork.optimizations.host.map_on_device import device_map_edits, transfer_or_refusal


@final
class DataOnDeviceOptimization(Optimization):
    """Send the indices of a batch's rows, not the rows."""

    name = "data_on_device"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it where the transfer takes a large share of the step, and all rows fit."""
        work, rows = context.workload, find_array_offload(context.diagnosis)
        transfer = transfer_or_refusal(context, allow_arrays=rows is not None)
        if isinstance(transfer, Skipped):
            return transfer
        if rows is None:
            return Skipped(
                reason="the training is not fed by arrays whose rows are only picked, "
                "batched, cast, scaled or moved"
            )
        reason = _memory_refusal(context, transfer, rows.resident_bytes)
        if reason:
            return Skipped(reason=reason)
        saving = TransferSaving(share=rows.saved_transfer_share)
        predicted = predict_transfer_gain(context.diagnosis, transfer, saving, context.machine.cpus)
        return Proposal(
            edits=device_map_edits(
                rows, work.pipeline_digest, gathers_rows=work.data_kind == "tf.data"
            ),
            predicted=predicted,
            at=_at(context),
            rationale=(
                f"{rows.resident_bytes / 1e6:,.1f} MB of arrays are copied to {transfer.device} "
                "once, and the step gathers their rows there"
            ),
            source_edit="with tf.device(device):\n    x_on_device = tf.constant(x)\n"
            "dataset = tf.data.Dataset.range(len(x)).shuffle(...).batch(n)\n"
            "# and in the training step\nx = tf.gather(x_on_device, indices)",
        )


def _memory_refusal(context: Context, transfer: Transfer, needed_bytes: int) -> str:
    if transfer.free_device_bytes is None:
        return f"the free memory of {transfer.device} is unknown"
    budget_bytes = context.policy.memory_share * transfer.free_device_bytes
    if needed_bytes <= budget_bytes:
        return ""
    return (
        f"the arrays take {needed_bytes / 1e9:.1f} GB of the device's memory, the budget is "
        f"{budget_bytes / 1e9:.1f} GB"
    )


def _at(context: Context) -> str:
    lines = (s.at for s in context.stages if s.step_offload and s.kind != "map" and s.at)
    return next(lines, context.workload.at)
