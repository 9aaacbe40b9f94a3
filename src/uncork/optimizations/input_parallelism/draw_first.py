"""Draw the random numbers of a serial map first, then do its work in parallel.

Legal as ``exact``: the draws are made by a serial map, one element after the other, from the same
seeds and so to the same numbers; the work that goes by them neither draws nor keeps state, so it
gives the same on any thread, and ``deterministic=True`` keeps the order of elements.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import DrawFirst
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)

_SOURCE: Final = """\
dataset.map(lambda x: (x, tf.random.uniform([])))                        # what is drawn
       .map(augmented_as_drawn, num_parallel_calls=tf.data.AUTOTUNE)     # what goes by it"""


@final
class DrawFirstOptimization(Optimization):
    """Cut a serial random map behind its draws, and run the rest on several elements at once."""

    name = "draw_first"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The serial map whose cut is predicted to win most."""
        missing = pipeline_refusal(diagnosis)
        if missing:
            return missing
        drawing = {s.index: s for s in diagnosis.stages if s.random_part is not None}
        if not drawing:
            return Skipped(reason="no serial map that does work beside drawing")
        costs = attribute_costs(diagnosis, machine.cpus)
        predicted, best = max(
            (predict_gain(costs, costs.with_random_part_first(i)), i) for i in drawing
        )
        if predicted < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(predicted)
        stage = drawing[best]
        assert stage.random_part is not None
        return Proposal(
            edits=(DrawFirst(stage=best, expected_digest=diagnosis.workload.pipeline_digest),),
            predicted=predicted,
            at=stage.at,
            rationale=(
                f"{stage.random_part.deterministic_op_count} ops of {stage.name or 'the map'} "
                "only go by what was drawn"
            ),
            source_edit=_SOURCE,
        )
