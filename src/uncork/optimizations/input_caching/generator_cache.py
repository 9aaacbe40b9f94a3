"""Run a Python generator once, and keep what it yields in memory.

Legal as ``exact`` only where it was seen to yield the same each time: to change nothing that it can
get at, to draw nothing, to print and write nothing. In force, all that it can get at is digested
when a pass begins; where anything of it has changed, the generator is run anew.

Where that makes epochs very short, the autotuner goes with it, as with ``cache``.
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

_NOT_ALIKE: Final = "no generator that was seen to yield the same in every epoch"
_NOT_READ: Final = "the training was not seen to read its generator to the end"
_SOURCE: Final = "tf.data.Dataset.from_generator(...).cache()  # before shuffle and augmentation"


@final
class GeneratorCacheOptimization(Optimization):
    """Keep what a Python generator yields."""

    name = "generator_cache"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal, single_pass_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """All elements, where they fit the memory budget; as many as do, where nobody counted."""
        alike = [s for s in context.stages if s.kind == "from_generator" and s.memoization]
        kept = [stage for stage in alike if is_generator_exhausted(context.diagnosis, stage)]
        if not kept:
            return Skipped(reason=_NOT_READ if alike else _NOT_ALIKE)
        costs = context.costs
        best, predicted = best_gain(costs, kept, lambda s: costs.with_memoized_stage(s.index))
        assert best.memoization is not None
        budget = context.memory_budget_bytes
        needed = best.memoization.total_bytes or int(budget)
        if needed > budget:
            return memory_refusal(needed, budget)
        keep = GeneratorCache(
            stage=best.index,
            expected_digest=context.pipeline_digest,
            size_bytes=needed,
            code_digest=best.memoization.code_digest,
        )
        following = following_autotune_off_edits(context, costs.with_memoized_stage(best.index))
        most = "" if best.memoization.total_bytes else "at most "
        return Proposal(
            edits=(keep, *following),
            predicted=predicted,
            at=best.at,
            rationale=f"what the generator yields is kept in {most}{needed / 1e9:.3g} GB of memory",
            source_edit=_SOURCE,
        )
