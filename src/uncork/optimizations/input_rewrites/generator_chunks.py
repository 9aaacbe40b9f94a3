"""Take the elements of a Python generator over into TensorFlow many at a time.

``Dataset.from_generator`` calls into the interpreter for every element, some 100 us each. Legal as
``exact`` because the generator yields what it did, in its order, and is asked by the same code; it
is only asked further ahead, so what reads it must read on to its end, or ahead of the training.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of
from uncork.core.costmodel.step_cost import gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import GeneratorChunks
from uncork.optimizations.base.preconditions import no_pipeline
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

_SOURCE: Final = (
    "tf.data.Dataset.from_generator(chunks, ...).unbatch()  # chunks: many elements, stacked"
)


@final
class TakeInChunks(Optimization):
    """Hand many elements of a Python generator over at once."""

    name = "generator_chunks"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The generator that is predicted to win most."""
        missing = no_pipeline(diagnosis)
        if missing:
            return missing
        brief = [s for s in diagnosis.stages if s.chunked]
        if not brief:
            return Skipped(reason="no brief generator whose elements could come many at a time")
        costs = costs_of(diagnosis, machine.cpus)
        best = max(brief, key=lambda s: gain(costs, costs.chunked(s.index)))
        assert best.chunked is not None
        predicted = gain(costs, costs.chunked(best.index))
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        edit = GeneratorChunks(
            stage=best.index,
            expects=diagnosis.workload.pipeline,
            elements=best.chunked.elements,
        )
        return Proposal(
            edits=(edit,),
            predicted=predicted,
            at=best.at,
            why=(
                f"the interpreter is asked once for {best.chunked.elements} elements of the "
                "generator, not for each"
            ),
            source_edit=_SOURCE,
        )
