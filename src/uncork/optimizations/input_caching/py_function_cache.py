"""Call the Python functions of a map once for each thing they are asked, and keep their answers.

Legal as ``exact`` only where every such function was seen to depend on what it is asked alone: to
change nothing that it can get at, to draw nothing, to print and write nothing. In force, all that
it can get at is digested before its answers are handed out again; where anything of it has changed,
they are made anew.

Where that makes epochs very short, the autotuner goes with it, as with ``cache``.
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
def function(path):      # py_function hands over tensors: unpack them before, path.numpy()
    ..."""


@final
class PyFunctionCacheOptimization(Optimization):
    """Keep what the Python functions of a map answer."""

    name = "py_function_cache"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal, explicit_steps_refusal, single_pass_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """The map that is predicted to win most, where all its answers fit the memory budget."""
        budget = context.memory_budget_bytes
        asked = [s for s in context.stages if s.kind == "map" and s.memoization is not None]
        fitting = [s for s in asked if _bytes(s) <= budget]
        if not asked:
            return Skipped(
                reason="no map calls Python that was seen to answer the same in every epoch"
            )
        if not fitting:
            return memory_refusal(min(map(_bytes, asked)), budget)
        costs = context.costs
        best, predicted = best_gain(costs, fitting, lambda s: costs.with_memoized_stage(s.index))
        assert best.memoization is not None
        keep = PyFunctionCache(
            stage=best.index,
            expected_digest=context.pipeline_digest,
            size_bytes=best.memoization.total_bytes,
            code_digest=best.memoization.code_digest,
        )
        following = following_autotune_off_edits(context, costs.with_memoized_stage(best.index))
        return Proposal(
            edits=(keep, *following),
            predicted=predicted,
            at=best.python_code_at or best.at,
            rationale=(
                f"what the Python code of {best.name or 'the map'} answers is kept in "
                f"{best.memoization.total_bytes / 1e9:.3g} GB of memory"
            ),
            source_edit=_SOURCE,
        )


def _bytes(stage: Stage) -> int:
    return stage.memoization.total_bytes if stage.memoization else 0
