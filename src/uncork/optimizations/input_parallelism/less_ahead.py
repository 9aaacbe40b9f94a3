"""Prepare ahead what will be taken, and no more.

A prefetch of hundreds of batches, or a map with hundreds of calls at once, helps nobody who takes
one at a time; where each pass is left before the data ends, it makes them in vain, on the cores
that the training needs.

Legal because how far a buffer reaches, and how many calls run at once, changes neither the elements
nor their order.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel.attribution import discarded_cpu_s
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.edits.pipeline import LessAhead
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

_SOURCE: Final = """\
dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)
       .prefetch(tf.data.AUTOTUNE)"""


@final
class LessAheadOptimization(Optimization):
    """Shorten the buffers whose leavings cost time."""

    name = "less_ahead"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Every prefetch and parallel map that works in vain."""
        told = [s for s in context.stages if s.prefetched_elements]
        if not told:
            return Skipped(reason="nothing was told how much to prepare ahead")
        wasteful = [s for s in told if discarded_cpu_s(context.diagnosis, s)]
        if not wasteful:
            return Skipped(reason="what is prepared ahead is taken")
        costs = context.costs
        discarded_s = max(discarded_cpu_s(context.diagnosis, s) for s in wasteful)
        predicted = predict_gain(costs, costs.without_unattributed_cpu(discarded_s))
        # All of them: a short buffer in front of a long one is filled for the long one.
        most = max(s.prefetched_elements or 0 for s in wasteful)
        expected = (context.pipeline_digest, *[""] * (len(wasteful) - 1))
        return Proposal(
            edits=tuple(
                LessAhead(stage=s.index, expected_digest=e)
                for s, e in zip(wasteful, expected, strict=True)
            ),
            predicted=predicted,
            at=wasteful[-1].at,
            rationale=f"of up to {most:,} elements prepared ahead most are never taken",
            source_edit=_SOURCE,
        )
