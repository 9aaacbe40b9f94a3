"""Go through each batch in parts, one after the other, and update once.

Legal where each example of a batch counts by itself: the loss of a batch is then the sum of those
of its parts, each by its share, and so are the gradients. They are added up in another order, so
they round otherwise. It makes nothing faster: it is for a training that runs out of memory as it is
written, which is not proposed for any other. So there is no training as written to compare with,
but on as many examples of each batch as there is memory for.
"""

from __future__ import annotations

from typing import final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.documents.workload import Workload
from uncork.core.edits.step import MicroBatches, StepEdit
from uncork.core.evidence.batches import TooLarge
from uncork.optimizations.base.preconditions import no_step_edit
from uncork.optimizations.base.proposal import Optimization, Proposal, Skipped


@final
class TrainInParts(Optimization):
    """The same batch, the same number of updates, the activations of a part of it at a time."""

    name = "micro_batches"
    stage = "batch"
    guarantee = "rounding"
    at_worst = "resampled"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Only where the training does not fit into memory otherwise."""
        forbidden = no_step_edit(diagnosis)
        if forbidden:
            return forbidden
        if diagnosis.too_large is None:
            return Skipped(reason="the training fits into memory as it is")
        if diagnosis.too_large.segments:
            return Skipped(reason="in parts it is not the same training, or does not fit either")
        return self.of(diagnosis.too_large, diagnosis.workload)

    @staticmethod
    def of(found: TooLarge, work: Workload) -> Proposal:
        """What to do about a training that is too large, by what was found of it."""
        size = -(-work.batch_size // found.parts) if work.batch_size else None
        rows = f" of {size} examples" if size else ""
        return Proposal(
            edits=TrainInParts.edits(found.parts),
            predicted=None,
            at=work.at,
            why=f"as written it runs out of memory ({found.said}); in {found.parts} parts{rows} "
            f"it took {found.bytes / 1e9:.2g} GB at most",
            source_edit=f"gradient_accumulation_steps={found.parts}, batch_size={size or '...'}  "
            "# a schedule goes as many times as fast",
        )

    @staticmethod
    def edits(parts: int) -> tuple[StepEdit, ...]:
        """Of the training step."""
        return (MicroBatches(parts=parts),)
