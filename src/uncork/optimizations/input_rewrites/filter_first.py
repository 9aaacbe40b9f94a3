"""Filter first, so that later maps do not process elements that the filter drops.

A filter by label or by length often stands at the end of a pipeline, where its input is at hand. By
then each dropped element has been read, decoded and resized.

Legal where the maps upstream of the filter only pass on its inputs (or cast, scale or reshape
them), and process each element separately: then the filter drops the same elements before the maps
as after them.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel.step_cost import pass_rate
from uncork.core.edits.pipeline import FilterFirst
from uncork.core.evidence.stage_graph import consecutive_stages
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped, best_gain

_BY_HAND: Final = {
    "filter": "filter(predicate)  # on the label or the name",
    "shard": "shard(num_shards, index)",
    "skip": "skip(count)",
}
_SOURCE: Final = """\
dataset.{dropping}
       .map(load, num_parallel_calls=tf.data.AUTOTUNE)"""


@final
class FilterFirstOptimization(Optimization):
    """Move a filter before the maps that do no work for it."""

    name = "filter_first"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the filter that saves most."""
        pairs = consecutive_stages(context.stages)
        shares = {s: pass_rate(below, s) for below, s in pairs if s.bypassable_maps}
        if not shares:
            return Skipped(reason="no filter follows maps that do no work for it")
        costs = context.costs
        best, predicted = best_gain(
            costs, shares, lambda s: costs.with_stages_share(s.bypassable_maps, shares[s] or 1.0)
        )
        return Proposal(
            edits=(FilterFirst(stage=best.index, expected_digest=context.pipeline_digest),),
            predicted=predicted,
            at=best.at,
            rationale=(
                f"{1 - (shares[best] or 1.0):.0%} of the elements are dropped before the maps "
                "process them; their errors no longer occur"
            ),
            source_edit=_SOURCE.format(dropping=_BY_HAND[best.kind]),
        )
