"""Write checkpoints while the training goes on.

``ModelCheckpoint`` saves with the training standing still: until all bytes are with the system, or
with a server on the network, no step is run. What is to be saved is copied instead, and a thread
writes the copies.

Legal because Keras's own saver is asked at the moment at which it ever was, and only where it would
write an array is a copy of that laid aside. The file has another name until it is complete; then it
takes the place of the one before. Callbacks that may look at it, the next save and the end of
``fit`` wait for it.
"""

from __future__ import annotations

from typing import final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.checkpoint_time import async_checkpoint_gain, checkpoint_share
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.edit import AsyncCheckpoint
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)


@final
class AsyncCheckpointOptimization(Optimization):
    """Let a thread write what a ``ModelCheckpoint`` saves."""

    name = "async_checkpoint"
    stage = "host"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Where saving takes a good part of the time, and memory has room for the copies."""
        saving = diagnosis.checkpoint_cost
        if diagnosis.workload.kind == "custom_loop":
            return Skipped(reason="a loop of your own saves by itself")
        if saving is None:
            return Skipped(
                reason="nothing is saved by Keras's own ModelCheckpoint as .keras or .weights.h5, "
                "or where it is saved cannot be tried"
            )
        if saving.refusal_reason:
            return Skipped(reason=saving.refusal_reason)
        if saving.copy_bytes > policy.memory_share * diagnosis.memory_available_bytes:
            return Skipped(
                reason=(
                    f"copies of what is saved take {saving.copy_bytes / 1e9:.1f} GB, more than "
                    "the "
                    f"{policy.memory_share:.0%} of the memory that may be used"
                )
            )
        predicted = async_checkpoint_gain(diagnosis, machine.cpus)
        if predicted < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(predicted)
        share = f"{'up to ' if saving.is_save_best_only else ''}{checkpoint_share(diagnosis):.0%}"
        return Proposal(
            edits=(AsyncCheckpoint(size_bytes=saving.copy_bytes),),
            predicted=predicted,
            at=saving.at or diagnosis.workload.at,
            rationale=(
                f"saving takes {share} of the time, and files are written beside the training"
            ),
            source_edit="keras.callbacks.OrbaxCheckpoint(directory)  # saves in the background, as "
            "Orbax's files",
        )
