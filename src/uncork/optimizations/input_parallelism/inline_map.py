"""Run brief maps in the thread that asks for their elements.

TensorFlow hands each call of a map's function to a thread of its pool and waits for the answer, or,
where it has fused the map with a batch or run it in parallel by itself, hands over one call after
the other. To wake a thread takes 4 to 20 microseconds, twice for each element: more than most
casting, scaling, splitting and looking up takes. An attribute of the op,
``use_inter_op_parallelism``, which Python's ``map`` always sets, says that nothing is handed over.

Legal as ``exact``: the same ops run on the same elements, one call after the other. A parallel map
is only run so where it neither draws nor keeps state, and kept its order.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel.step_cost import predict_gain, stages_worth_inlining
from uncork.core.edits.pipeline import InlineMap
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    is_worth_trying,
    low_gain_refusal,
)

_SOURCE: Final = """\
# No public argument of map does this. What comes near: one call for many elements.
dataset.batch(n).map(function_of_a_batch)"""


@final
class InlineMapOptimization(Optimization):
    """Spare brief maps the way to another thread and back."""

    name = "inline_map"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """All maps that are predicted to cost less so, and hold up nothing."""
        if not any(s.inlined_cost for s in context.stages):
            return Skipped(reason="no map that its consumer could run by itself")
        costs = context.costs
        chosen = stages_worth_inlining(costs)
        predicted = predict_gain(costs, costs.with_inlined_stages(chosen))
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        # From the highest down: what is put above a map leaves the numbers of those below it.
        first, *others = chosen
        names = " and ".join(context.stages[i].name or "the map" for i in chosen)
        return Proposal(
            edits=(
                InlineMap(stage=first, expected_digest=context.pipeline_digest),
                *(InlineMap(stage=stage, expected_digest="") for stage in others),
            ),
            predicted=predicted,
            at=context.stages[first].at,
            rationale=f"{names} run in the thread that asks, not in another one for each element",
            source_edit=_SOURCE,
        )
