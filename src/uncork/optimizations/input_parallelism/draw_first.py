"""Draw the random numbers of a serial map first, then do its work in parallel.

Legal as ``exact``: the draws are made by a serial map, one element after the other, from the same
seeds and so to the same numbers; the work that goes by them neither draws nor keeps state, so it
gives the same on any thread, and ``deterministic=True`` keeps the order of elements.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.pipeline import DrawFirst
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped, best_gain

_SOURCE: Final = """\
dataset.map(lambda x: (x, tf.random.uniform([])))                        # what is drawn
       .map(augmented_as_drawn, num_parallel_calls=tf.data.AUTOTUNE)     # what goes by it"""


@final
class DrawFirstOptimization(Optimization):
    """Cut a serial random map behind its draws, and run the rest on several elements at once."""

    name = "draw_first"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """The serial map whose cut is predicted to win most."""
        drawing = [s for s in context.stages if s.random_part is not None]
        if not drawing:
            return Skipped(reason="no serial map that does work beside drawing")
        costs = context.costs
        best, predicted = best_gain(
            costs, reversed(drawing), lambda s: costs.with_random_part_first(s.index)
        )
        assert best.random_part is not None
        return Proposal(
            edits=(DrawFirst(stage=best.index, expected_digest=context.pipeline_digest),),
            predicted=predicted,
            at=best.at,
            rationale=(
                f"{best.random_part.deterministic_op_count} ops of {best.name or 'the map'} "
                "only go by what was drawn"
            ),
            source_edit=_SOURCE,
        )
