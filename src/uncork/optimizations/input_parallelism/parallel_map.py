"""Run a serial map on several elements in parallel, including its random numbers.

Legal as ``resampled`` only: elements keep their order (``deterministic=True``), but which element
gets which random number now depends on which thread comes first. The distribution is the same; the
sequence is not reproducible. So Uncork tries exact edits first, ``parallelize_prefix`` and
``draw_first``, and this one only where the random part itself is the bottleneck.
"""

from __future__ import annotations

from typing import final

from uncork.core.edits.pipeline import ParallelMap
from uncork.core.evidence.stage import Stage
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped, best_gain


@final
class ParallelMapOptimization(Optimization):
    """Give a serial map ``num_parallel_calls=AUTOTUNE``."""

    name = "parallel_map"
    stage = "input"
    guarantee = "resampled"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the serial map with the largest predicted gain."""
        serial = [s for s in context.stages if _is_serial_map(s)]
        if not serial:
            return Skipped(reason="no serial map")
        costs = context.costs
        best, predicted = best_gain(costs, serial, lambda s: costs.with_parallel_stage(s.index))
        return Proposal(
            edits=(ParallelMap(stage=best.index, expected_digest=context.pipeline_digest),),
            predicted=predicted,
            at=best.at,
            rationale=f"{best.name or 'the map'} runs on several elements in parallel",
            source_edit="dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)",
        )


def _is_serial_map(stage: Stage) -> bool:
    # Python code would only queue for the interpreter lock, and may not be thread-safe.
    return stage.kind == "map" and stage.parallelism == 1 and not stage.has_python_code
