"""Read the inputs of a serial interleave in threads of their own.

Legal as ``exact``: a deterministic parallel interleave gives the elements of its inputs in the same
order as the serial one. These inputs use no random numbers and keep no state that threads could
share.
"""

from __future__ import annotations

from typing import final

from uncork.core.edits.pipeline import ParallelInterleave
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped, best_gain


@final
class ParallelInterleaveOptimization(Optimization):
    """Give a serial interleave ``num_parallel_calls=AUTOTUNE``."""

    name = "parallel_interleave"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the serial interleave with the largest predicted gain."""
        serial = [
            s for s in context.stages if s.max_readers is not None and s.max_input_elements is None
        ]
        if not serial:
            return Skipped(reason="no serial interleave of several inputs")
        costs = context.costs
        best, predicted = best_gain(
            costs, reversed(serial), lambda s: costs.with_parallel_stage(s.index)
        )
        return Proposal(
            edits=(ParallelInterleave(stage=best.index, expected_digest=context.pipeline_digest),),
            predicted=predicted,
            at=best.at,
            rationale="several threads read the inputs of the interleave",
            source_edit=(
                "dataset.interleave(function, cycle_length=N, num_parallel_calls=tf.data.AUTOTUNE, "
                "deterministic=True)"
            ),
        )
