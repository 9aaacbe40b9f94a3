"""Go through each batch in parts, one after the other, and update once.

Legal where each example of a batch counts by itself: the loss of a batch is then the sum of those
of its parts, each by its share, and so are the gradients. They are added up in another order, so
they round otherwise. It makes nothing faster: it is for a training that runs out of memory as it is
written, which is not proposed for any other. So there is no training as written to compare with,
but on as many examples of each batch as there is memory for.
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
    """The same batch, the same number of updates, the activations of a part of it at a time."""

    name = "micro_batches"
    stage = "batch"
    guarantee = "rounding"
    fallback_guarantee = "resampled"
    preconditions = (step_edit_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Only where the training does not fit into memory otherwise."""
        overflow = context.diagnosis.memory_overflow
        if overflow is None:
            return Skipped(reason="the training fits into memory as it is")
        if overflow.segments:
            return Skipped(reason="in parts it is not the same training, or does not fit either")
        return self.propose_for(overflow, context.workload)

    @staticmethod
    def propose_for(memory_overflow: MemoryOverflow, workload: Workload) -> Proposal:
        """What to do about a training that is too large, by what was found of it."""
        size = -(-workload.batch_size // memory_overflow.parts) if workload.batch_size else None
        rows = f" of {size} examples" if size else ""
        return Proposal(
            edits=MicroBatchesOptimization.edits(memory_overflow.parts),
            predicted=None,
            at=workload.at,
            rationale=(
                f"as written it runs out of memory ({memory_overflow.error_message}); in "
                f"{memory_overflow.parts} parts{rows} it took "
                f"{memory_overflow.peak_bytes / 1e9:.2g} GB at most"
            ),
            source_edit=(
                f"gradient_accumulation_steps={memory_overflow.parts}, batch_size={size or '...'} "
                " # a schedule goes as many times as fast"
            ),
        )

    @staticmethod
    def edits(parts: int) -> tuple[StepEdit, ...]:
        """Of the training step."""
        return (MicroBatches(parts=parts),)
