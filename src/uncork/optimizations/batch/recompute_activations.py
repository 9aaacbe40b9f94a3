"""Hold what goes into each segment of the model, and run it again for the backward pass.

Legal wherever the second run gives what the first one did: on the same inputs, weights, statistics
and seeds it is the same computation. It makes nothing faster, and costs most of a forward pass: it
is for a training that runs out of memory as it is written and cannot be gone through in parts,
above all where a layer normalizes over the batch. Known as gradient checkpointing, or
rematerialization (Chen et al., 2016).
"""

from __future__ import annotations

from typing import final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.documents.workload import Workload
from uncork.core.edits.step import RecomputeActivations, StepEdit
from uncork.core.evidence.batches import TooLarge
from uncork.optimizations.base.preconditions import no_step_edit
from uncork.optimizations.base.proposal import Optimization, Proposal, Skipped


@final
class RunSegmentsAgain(Optimization):
    """The whole batch at once, the activations of a segment of the model at a time."""

    name = "recompute_activations"
    stage = "batch"
    guarantee = "exact"
    at_worst = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Only where the training fits into memory in no cheaper way."""
        forbidden = no_step_edit(diagnosis)
        if forbidden:
            return forbidden
        found = diagnosis.too_large
        if found is None:
            return Skipped(reason="the training fits into memory as it is")
        if not found.segments:
            return Skipped(reason=f"it fits into memory {found.how}, which costs less time")
        return self.of(found, diagnosis.workload)

    @staticmethod
    def of(found: TooLarge, work: Workload) -> Proposal:
        """What to do about a training that is too large, by what was found of it."""
        return Proposal(
            edits=RunSegmentsAgain.edits(found.segments),
            predicted=None,
            at=work.at,
            why=f"as written it runs out of memory ({found.said}); {found.how}, "
            f"it took {found.bytes / 1e9:.2g} GB at most",
            source_edit="tf.recompute_grad around blocks of layers that keep no statistics, as its "
            "page shows",
        )

    @staticmethod
    def edits(segments: int) -> tuple[StepEdit, ...]:
        """Of the training step."""
        return (RecomputeActivations(segments=segments),)
