"""Sample the random numbers of a serial map first, then do its work in parallel.

Legal as ``exact``: a serial map samples the random numbers, one element after the other, from the
same seeds, and so gets the same numbers. The work that uses them neither samples nor keeps state,
so it gives the same on any thread, and ``deterministic=True`` keeps the order of elements.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.pipeline import DrawFirst
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped, best_gain

_SOURCE: Final = """\
dataset.map(lambda x: (x, tf.random.uniform([])))                        # random numbers
       .map(augment_with_these, num_parallel_calls=tf.data.AUTOTUNE)     # the rest"""


@final
class DrawFirstOptimization(Optimization):
    """Split a serial random map after its random numbers, and run the rest in parallel."""

    name = "draw_first"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the serial map whose split has the largest predicted gain."""
        random_maps = [s for s in context.stages if s.random_part is not None]
        if not random_maps:
            return Skipped(reason="no serial map does work besides random numbers")
        costs = context.costs
        best, predicted = best_gain(
            costs, reversed(random_maps), lambda s: costs.with_random_part_first(s.index)
        )
        assert best.random_part is not None
        return Proposal(
            edits=(DrawFirst(stage=best.index, expected_digest=context.pipeline_digest),),
            predicted=predicted,
            at=best.at,
            rationale=(
                f"{best.random_part.deterministic_op_count} ops of {best.name or 'the map'} "
                "only use random numbers that other ops sample"
            ),
            source_edit=_SOURCE,
        )
