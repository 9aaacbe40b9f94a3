"""Draw the random numbers of a serial map first, then do its work in parallel.

Legal as ``exact``: the draws are made by a serial map, one element after the other, from the same
seeds and so to the same numbers; the work that goes by them neither draws nor keeps state, so it
gives the same on any thread, and ``deterministic=True`` keeps the order of elements.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of
from uncork.core.costmodel.step_cost import gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import DrawFirst
from uncork.optimizations.base.preconditions import no_pipeline
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

_SOURCE: Final = """\
dataset.map(lambda x: (x, tf.random.uniform([])))                        # what is drawn
       .map(augmented_as_drawn, num_parallel_calls=tf.data.AUTOTUNE)     # what goes by it"""


@final
class DrawBeforeWork(Optimization):
    """Cut a serial random map behind its draws, and run the rest on several elements at once."""

    name = "draw_first"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The serial map whose cut is predicted to win most."""
        missing = no_pipeline(diagnosis)
        if missing:
            return missing
        drawing = {s.index: s for s in diagnosis.stages if s.draws is not None}
        if not drawing:
            return Skipped(reason="no serial map that does work beside drawing")
        costs = costs_of(diagnosis, machine.cpus)
        predicted, best = max((gain(costs, costs.drawn_first(i)), i) for i in drawing)
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        stage = drawing[best]
        assert stage.draws is not None
        return Proposal(
            edits=(DrawFirst(stage=best, expects=diagnosis.workload.pipeline),),
            predicted=predicted,
            at=stage.at,
            why=f"{stage.draws.ops} ops of {stage.name or 'the map'} only go by what was drawn",
            source_edit=_SOURCE,
        )
