"""Run short maps in the thread that reads their elements.

TensorFlow passes each call of a map's function to a thread of its pool and waits for the result. A
map that it has fused with a batch or runs in parallel passes on one call after the other. To wake a
thread takes 4 to 20 microseconds, twice for each element: longer than most casts, scalings, splits
and look-ups. An attribute of the op, ``use_inter_op_parallelism``, which ``map`` in Python always
sets, can turn this off.

Legal as ``exact``: the same ops run on the same elements, one call after the other. Uncork changes
a parallel map only if it uses no random numbers, keeps no state and keeps the order.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.costmodel.worthwhile_stages import stages_worth_inlining
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
# No public argument of map does this. The closest: one call for many elements.
dataset.batch(n).map(function_of_a_batch)"""


@final
class InlineMapOptimization(Optimization):
    """Save short maps the way to another thread and back."""

    name = "inline_map"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select all maps that are predicted to cost less this way, and that delay nothing."""
        if not any(s.inlined_cost for s in context.stages):
            return Skipped(reason="no map that its consumer could run in its own thread")
        costs = context.costs
        chosen = stages_worth_inlining(costs)
        predicted = predict_gain(costs, costs.with_inlined_stages(chosen))
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        # From the last map back: an edit after a map keeps the indices of the maps before it.
        first, *others = chosen
        names = " and ".join(context.stages[i].name or "the map" for i in chosen)
        return Proposal(
            edits=(
                InlineMap(stage=first, expected_digest=context.pipeline_digest),
                *(InlineMap(stage=stage, expected_digest="") for stage in others),
            ),
            predicted=predicted,
            at=context.stages[first].at,
            rationale=f"the thread that reads their elements runs {names}, not another one",
            source_edit=_SOURCE,
        )
