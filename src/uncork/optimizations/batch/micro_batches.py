"""Process each batch in parts, one after the other, and update once.

Legal where each example of a batch counts separately: the loss of a batch is then the weighted sum
of the losses of its parts, and so are the gradients. They are added in another order, so they round
differently. It is not faster: it is for a training that runs out of memory without it, and Uncork
proposes it for no other. So there is no original training to compare with. Uncork compares on as
many examples of each batch as fit into memory.
"""

from __future__ import annotations

from typing import final

from uncork.core.documents.workload import Workload
from uncork.core.edits.step import MicroBatches, StepEdit
from uncork.core.evidence.batches import MemoryOverflow
from uncork.optimizations.base.preconditions import step_edit_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped


@final
class MicroBatchesOptimization(Optimization):
    """Keep batch and updates, with the activations of one part of the batch at a time."""

    name = "micro_batches"
    stage = "batch"
    guarantee = "rounding"
    fallback_guarantee = "resampled"
    preconditions = (step_edit_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it only where the training does not fit into memory otherwise."""
        overflow = context.diagnosis.memory_overflow
        if overflow is None:
            return Skipped(reason="the unmodified training fits into memory")
        if overflow.segments:
            return Skipped(reason="in parts it is not the same training, or does not fit either")
        return self.propose_for(overflow, context.workload)

    @staticmethod
    def propose_for(memory_overflow: MemoryOverflow, workload: Workload) -> Proposal:
        """Propose it for a training that runs out of memory, by what Uncork measured of it."""
        size = -(-workload.batch_size // memory_overflow.parts) if workload.batch_size else None
        rows = f" of {size} examples" if size else ""
        return Proposal(
            edits=MicroBatchesOptimization.edits(memory_overflow.parts),
            predicted=None,
            at=workload.at,
            rationale=(
                f"the original runs out of memory ({memory_overflow.error_message}); in "
                f"{memory_overflow.parts} parts{rows} it uses at most "
                f"{memory_overflow.peak_bytes / 1e9:.2g} GB"
            ),
            source_edit=(
                f"gradient_accumulation_steps={memory_overflow.parts}, batch_size={size or '...'} "
                " # a schedule must advance as many times as fast"
            ),
        )

    @staticmethod
    def edits(parts: int) -> tuple[StepEdit, ...]:
        """Return the edits of the training step."""
        return (MicroBatches(parts=parts),)
