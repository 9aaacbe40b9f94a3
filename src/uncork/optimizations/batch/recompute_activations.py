"""Store only the inputs of each segment of the model, and run it again for the backward pass.

Legal where the second run gives the same as the first: on the same inputs, weights, statistics and
seeds it is the same computation. It is not faster, and costs most of a forward pass: it is for a
training that runs out of memory without it and cannot use micro-batches, above all where a layer
normalizes over the batch. Known as gradient checkpointing, or rematerialization (Chen et al.,
2016).
"""

from __future__ import annotations

from typing import final

from uncork.core.documents.workload import Workload
from uncork.core.edits.step import RecomputeActivations, StepEdit
from uncork.core.evidence.batches import MemoryOverflow
from uncork.optimizations.base.preconditions import step_edit_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped


@final
class RecomputeActivationsOptimization(Optimization):
    """Keep the whole batch, with the activations of one segment at a time."""

    name = "recompute_activations"
    stage = "batch"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (step_edit_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it only where the training fits into memory in no cheaper way."""
        overflow = context.diagnosis.memory_overflow
        if overflow is None:
            return Skipped(reason="the unmodified training fits into memory")
        if not overflow.segments:
            return Skipped(
                reason=f"it fits into memory {overflow.description}, which costs less time"
            )
        return self.propose_for(overflow, context.workload)

    @staticmethod
    def propose_for(memory_overflow: MemoryOverflow, workload: Workload) -> Proposal:
        """Propose it for a training that runs out of memory."""
        return Proposal(
            edits=RecomputeActivationsOptimization.edits(memory_overflow.segments),
            predicted=None,
            at=workload.at,
            rationale=(
                f"the original runs out of memory ({memory_overflow.error_message}); "
                f"{memory_overflow.description}, it uses at most "
                f"{memory_overflow.peak_bytes / 1e9:.2g} GB"
            ),
            source_edit="tf.recompute_grad around blocks of layers without statistics, as its "
            "page shows",
        )

    @staticmethod
    def edits(segments: int) -> tuple[StepEdit, ...]:
        """Return the edits of the training step."""
        return (RecomputeActivations(segments=segments),)
