"""Take the elements of a Python generator over into TensorFlow many at a time.

``Dataset.from_generator`` calls into the interpreter for every element, some 100 us each. Legal as
``exact`` because the generator yields what it did, in its order, and is asked by the same code; it
is only asked further ahead, so what reads it must read on to its end, or ahead of the training.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import GeneratorChunks
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)

_SOURCE: Final = (
    "tf.data.Dataset.from_generator(chunks, ...).unbatch()  # chunks: many elements, stacked"
)


@final
class GeneratorChunksOptimization(Optimization):
    """Hand many elements of a Python generator over at once."""

    name = "generator_chunks"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The generator that is predicted to win most."""
        missing = pipeline_refusal(diagnosis)
        if missing:
            return missing
        brief = [s for s in diagnosis.stages if s.chunked_cost]
        if not brief:
            return Skipped(reason="no brief generator whose elements could come many at a time")
        costs = attribute_costs(diagnosis, machine.cpus)
        best = max(brief, key=lambda s: predict_gain(costs, costs.with_chunked_stage(s.index)))
        assert best.chunked_cost is not None
        predicted = predict_gain(costs, costs.with_chunked_stage(best.index))
        if predicted < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(predicted)
        edit = GeneratorChunks(
            stage=best.index,
            expected_digest=diagnosis.workload.pipeline_digest,
            max_elements=best.chunked_cost.max_elements,
        )
        return Proposal(
            edits=(edit,),
            predicted=predicted,
            at=best.at,
            rationale=(
                f"the interpreter is asked once for {best.chunked_cost.max_elements} elements of "
                "the "
                "generator, not for each"
            ),
            source_edit=_SOURCE,
        )
