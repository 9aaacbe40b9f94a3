"""Write checkpoints while the training continues.

``ModelCheckpoint`` stops the training while it saves: no step runs until the operating system, or a
server on the network, has all bytes. Uncork copies the values instead, and a thread writes the
copies.

Legal because Keras's own saver runs at the same moment as before; only where it would write an
array, it gets a copy of this array. The file has another name until it is complete; then it
replaces the previous one. Callbacks that may read it, the next save and the end of ``fit`` wait for
it.
"""

from __future__ import annotations

from typing import final

from uncork.core.costmodel.checkpoint_time import async_checkpoint_gain, checkpoint_share
from uncork.core.edits.edit import AsyncCheckpoint
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped


def _refusal(context: Context) -> str:
    if context.is_loop:
        return "your training loop saves its own checkpoints"
    if context.diagnosis.checkpoint_cost is None:
        return (
            "no ModelCheckpoint of Keras saves as .keras or .weights.h5, "
            "or Uncork cannot try its target"
        )
    return context.diagnosis.checkpoint_cost.refusal_reason


@final
class AsyncCheckpointOptimization(Optimization):
    """Let a thread write the files of a ``ModelCheckpoint``."""

    name = "async_checkpoint"
    stage = "host"
    guarantee = "exact"
    preconditions = (_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it where saving takes much of the time and the copies fit into memory."""
        saving = context.diagnosis.checkpoint_cost
        assert saving is not None
        if saving.copy_bytes > context.memory_budget_bytes:
            return Skipped(
                reason=f"copies of the checkpoint take {saving.copy_bytes / 1e9:.1f} GB, more than "
                f"the {context.policy.memory_share:.0%} of the memory that the policy allows"
            )
        share = f"{checkpoint_share(context.diagnosis):.0%}"
        if saving.is_save_best_only:
            share = f"up to {share}"
        return Proposal(
            edits=(AsyncCheckpoint(size_bytes=saving.copy_bytes),),
            predicted=async_checkpoint_gain(context.diagnosis, context.machine.cpus),
            at=saving.at or context.workload.at,
            rationale=(
                f"saving takes {share} of the time, and a thread can write the files meanwhile"
            ),
            source_edit="keras.callbacks.OrbaxCheckpoint(directory)  # saves in the background, as "
            "Orbax's files",
        )
