"""Prefetch what the training reads, and no more.

A prefetch of hundreds of batches, or a map with hundreds of parallel calls, does not help a
training that reads one batch at a time. Where each pass ends before the data does, these elements
are discarded, and cost time on the cores that the training needs.

Legal because the size of a buffer and the number of parallel calls change neither the elements nor
their order.
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
    """Shorten the buffers whose discarded elements cost time."""

    name = "less_ahead"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select every prefetch and parallel map whose elements are discarded."""
        prefetching = [s for s in context.stages if s.prefetched_elements]
        if not prefetching:
            return Skipped(reason="no prefetch or parallel map has a fixed size")
        wasteful = [s for s in prefetching if discarded_cpu_s(context.diagnosis, s)]
        if not wasteful:
            return Skipped(reason="the training reads all prefetched elements")
        costs = context.costs
        discarded_s = max(discarded_cpu_s(context.diagnosis, s) for s in wasteful)
        predicted = predict_gain(costs, costs.without_unattributed_cpu(discarded_s))
        # All of them: the long buffer after a short one reads through the short one.
        max_count = max(s.prefetched_elements or 0 for s in wasteful)
        expected = (context.pipeline_digest, *[""] * (len(wasteful) - 1))
        return Proposal(
            edits=tuple(
                LessAhead(stage=s.index, expected_digest=e)
                for s, e in zip(wasteful, expected, strict=True)
            ),
            predicted=predicted,
            at=wasteful[-1].at,
            rationale=f"the training never reads most of up to {max_count:,} prefetched elements",
            source_edit=_SOURCE,
        )
