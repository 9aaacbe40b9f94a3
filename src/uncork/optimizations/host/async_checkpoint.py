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

from uncork.core.costmodel.checkpoint_time import async_checkpoint_gain, checkpoint_share
from uncork.core.edits.edit import AsyncCheckpoint
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped


def _refusal(context: Context) -> str:
    if context.is_loop:
        return "a loop of your own saves by itself"
    if context.diagnosis.checkpoint_cost is None:
        return (
            "nothing is saved by Keras's own ModelCheckpoint as .keras or .weights.h5, "
            "or where it is saved cannot be tried"
        )
    return context.diagnosis.checkpoint_cost.refusal_reason


@final
class AsyncCheckpointOptimization(Optimization):
    """Let a thread write what a ``ModelCheckpoint`` saves."""

    name = "async_checkpoint"
    stage = "host"
    guarantee = "exact"
    preconditions = (_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Where saving takes a good part of the time, and memory has room for the copies."""
        saving = context.diagnosis.checkpoint_cost
        assert saving is not None
        if saving.copy_bytes > context.memory_budget_bytes:
            return Skipped(
                reason=f"copies of what is saved take {saving.copy_bytes / 1e9:.1f} GB, more than "
                f"the {context.policy.memory_share:.0%} of the memory that may be used"
            )
        share = f"{checkpoint_share(context.diagnosis):.0%}"
        if saving.is_save_best_only:
            share = f"up to {share}"
        return Proposal(
            edits=(AsyncCheckpoint(size_bytes=saving.copy_bytes),),
            predicted=async_checkpoint_gain(context.diagnosis, context.machine.cpus),
            at=saving.at or context.workload.at,
            rationale=(
                f"saving takes {share} of the time, and files are written beside the training"
            ),
            source_edit="keras.callbacks.OrbaxCheckpoint(directory)  # saves in the background, as "
            "Orbax's files",
        )
