"""Call the Python functions of a map once for each input, and cache their results.

Legal as ``exact`` only where Uncork saw that the result of each function depends on its input
alone: it changes nothing that it can reach, uses no random numbers, prints nothing and writes
nothing. In a plan, Uncork compares a digest of all that the function can reach before it returns
cached results again. If anything changes, the function computes them again.

Where this makes epochs very short, Uncork also turns the autotuner off, as with ``cache``.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.pipeline import PyFunctionCache
from uncork.core.evidence.stage import Stage
from uncork.optimizations.base.preconditions import (
    explicit_steps_refusal,
    pipeline_refusal,
    single_pass_refusal,
)
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    best_gain,
    memory_refusal,
)
from uncork.optimizations.input_parallelism.autotune_off import following_autotune_off_edits

_SOURCE: Final = """\
@functools.cache
def function(path):      # py_function passes tensors: unpack them first, path.numpy()
    ..."""


@final
class PyFunctionCacheOptimization(Optimization):
    """Cache the results of the Python functions of a map."""

    name = "py_function_cache"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal, explicit_steps_refusal, single_pass_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the map with the largest gain whose results fit the memory budget."""
        budget = context.memory_budget_bytes
        repeatable = [s for s in context.stages if s.kind == "map" and s.memoization is not None]
        fitting = [s for s in repeatable if _bytes(s) <= budget]
        if not repeatable:
            return Skipped(
                reason="no map calls Python that is known to return the same in every epoch"
            )
        if not fitting:
            return memory_refusal(min(map(_bytes, repeatable)), budget)
        costs = context.costs
        best, predicted = best_gain(costs, fitting, lambda s: costs.with_memoized_stage(s.index))
        assert best.memoization is not None
        edit = PyFunctionCache(
            stage=best.index,
            expected_digest=context.pipeline_digest,
            size_bytes=best.memoization.total_bytes,
            code_digest=best.memoization.code_digest,
        )
        following = following_autotune_off_edits(context, costs.with_memoized_stage(best.index))
        return Proposal(
            edits=(edit, *following),
            predicted=predicted,
            at=best.python_code_at or best.at,
            rationale=(
                f"the results of the Python code of {best.name or 'the map'} are cached in "
                f"{best.memoization.total_bytes / 1e9:.3g} GB of memory"
            ),
            source_edit=_SOURCE,
        )


def _bytes(stage: Stage) -> int:
    return stage.memoization.total_bytes if stage.memoization else 0
