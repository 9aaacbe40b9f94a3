"""Run a Python generator once, and cache its elements in memory.

Legal as ``exact`` only where Uncork saw the generator yield the same elements each time: it changes
nothing that it can reach, uses no random numbers, prints nothing and writes nothing. In a plan,
Uncork compares a digest of all that the generator can reach at the start of each pass. If anything
changes, the generator runs again.

Where this makes epochs very short, Uncork also turns the autotuner off, as with ``cache``.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel.cache_candidates import is_generator_exhausted
from uncork.core.edits.pipeline import GeneratorCache
from uncork.optimizations.base.preconditions import pipeline_refusal, single_pass_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    best_gain,
    memory_refusal,
)
from uncork.optimizations.input_parallelism.autotune_off import following_autotune_off_edits

_NOT_REPEATABLE: Final = "no generator is known to yield the same elements in every epoch"
_NOT_READ: Final = "the training is not known to read its generator to the end"
_SOURCE: Final = "tf.data.Dataset.from_generator(...).cache()  # before shuffle and augmentation"


@final
class GeneratorCacheOptimization(Optimization):
    """Cache the elements of a Python generator."""

    name = "generator_cache"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal, single_pass_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Cache all elements, or as many as fit the memory budget if their number is unknown."""
        repeatable = [s for s in context.stages if s.kind == "from_generator" and s.memoization]
        cacheable = [
            stage for stage in repeatable if is_generator_exhausted(context.diagnosis, stage)
        ]
        if not cacheable:
            return Skipped(reason=_NOT_READ if repeatable else _NOT_REPEATABLE)
        costs = context.costs
        best, predicted = best_gain(costs, cacheable, lambda s: costs.with_memoized_stage(s.index))
        assert best.memoization is not None
        budget = context.memory_budget_bytes
        needed = best.memoization.total_bytes or int(budget)
        if needed > budget:
            return memory_refusal(needed, budget)
        edit = GeneratorCache(
            stage=best.index,
            expected_digest=context.pipeline_digest,
            size_bytes=needed,
            code_digest=best.memoization.code_digest,
        )
        following = following_autotune_off_edits(context, costs.with_memoized_stage(best.index))
        most = "" if best.memoization.total_bytes else "at most "
        return Proposal(
            edits=(edit, *following),
            predicted=predicted,
            at=best.at,
            rationale=(
                f"the elements of the generator are cached in {most}{needed / 1e9:.3g} GB of memory"
            ),
            source_edit=_SOURCE,
        )
