"""Hold what goes into each segment of the model, and run it again for the backward pass.

Legal wherever the second run gives what the first one did: on the same inputs, weights, statistics
and seeds it is the same computation. It makes nothing faster, and costs most of a forward pass: it
is for a training that runs out of memory as it is written and cannot be gone through in parts,
above all where a layer normalizes over the batch. Known as gradient checkpointing, or
rematerialization (Chen et al., 2016).
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
    """The whole batch at once, the activations of a segment of the model at a time."""

    name = "recompute_activations"
    stage = "batch"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (step_edit_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Only where the training fits into memory in no cheaper way."""
        overflow = context.diagnosis.memory_overflow
        if overflow is None:
            return Skipped(reason="the training fits into memory as it is")
        if not overflow.segments:
            return Skipped(
                reason=f"it fits into memory {overflow.description}, which costs less time"
            )
        return self.propose_for(overflow, context.workload)

    @staticmethod
    def propose_for(memory_overflow: MemoryOverflow, workload: Workload) -> Proposal:
        """What to do about a training that is too large, by what was found of it."""
        return Proposal(
            edits=RecomputeActivationsOptimization.edits(memory_overflow.segments),
            predicted=None,
            at=workload.at,
            rationale=(
                f"as written it runs out of memory ({memory_overflow.error_message}); "
                f"{memory_overflow.description}, "
                f"it took {memory_overflow.peak_bytes / 1e9:.2g} GB at most"
            ),
            source_edit="tf.recompute_grad around blocks of layers that keep no statistics, as its "
            "page shows",
        )

    @staticmethod
    def edits(segments: int) -> tuple[StepEdit, ...]:
        """Of the training step."""
        return (RecomputeActivations(segments=segments),)
