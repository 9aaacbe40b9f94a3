"""Cache what every epoch computes again, as late as randomness and memory allow.

Legal because a cache repeats its first pass, and this one is placed only after stages that repeat
it anyway: deterministic, finite, in the same order. Uncork splits a random map first, so that its
random part stays after the cache and runs in every epoch. Where memory is short, Uncork splits a
map that ends with a cast to a wider dtype before the cast: the same ops then widen the cached
values in every epoch. A shuffle or repeat in between swaps places with the deterministic 1:1 maps
after it: it permutes positions, whatever elements are in them.

A cache saves nothing in the first epoch. Where all epochs together are faster with maps called on
whole batches, Uncork tries that first. Then it tries a cache of these batches, or of the stages
upstream of the maps if a shuffle forms other batches in every epoch. An edit that makes the first
epoch much shorter also comes first.

Where the cache makes epochs very short, Uncork also turns the autotuner off: it has nothing left to
tune, and every epoch would end with a wait for it (see ``autotune_off``).
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.record import Record, replace
from uncork.core.costmodel.cache_candidates import cacheable_forms, is_cache_filled
from uncork.core.costmodel.step_cost import StepCosts, predict_gain
from uncork.core.edits.edit import Edit
from uncork.core.edits.pipeline import (
    Cache,
    DiskCache,
    InlineMap,
    ParallelMap,
    SplitMap,
    VectorizeMap,
)
from uncork.core.evidence.stage import Stage
from uncork.core.evidence.stage_graph import subtree_indices
from uncork.optimizations.base.preconditions import pipeline_refusal, single_pass_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    memory_refusal,
)
from uncork.optimizations.input_parallelism.autotune_off import following_autotune_off_edits
from uncork.optimizations.input_parallelism.inline_map import InlineMapOptimization
from uncork.optimizations.input_parallelism.parallelize_prefix import ParallelizePrefixOptimization
from uncork.optimizations.input_rewrites.vectorize import VectorizeOptimization

_NOTHING_TO_KEEP: Final = "no deterministic and finite stage is left to cache"
# Share of the memory budget. The sizes of smaller caches do not matter.
_NEGLIGIBLE_SHARE: Final = 0.05
# Share of the time of all epochs. Another order of trials must be predicted to take less.
_CLEARLY_LESS_RATIO: Final = 0.8
_BATCHES: Final = ("batch", "padded_batch")
_NEVER_FULL: Final = "the loop exits the dataset before a cache is complete"
_SOURCE: Final = """\
dataset.map(deterministic_part, num_parallel_calls=tf.data.AUTOTUNE).cache()
       .shuffle(...)       # after the cache, or every epoch has the same order
       .map(random_part)   # after the cache, or every epoch has the same augmentation"""
_NARROW: Final = """\
dataset.map(all_but_the_cast, num_parallel_calls=tf.data.AUTOTUNE).cache()  # bytes, not floats
       .map(lambda image, label: (tf.cast(image, tf.float32) / 255.0, label))"""


@final
class CacheOptimization(Optimization):
    """Cache the longest deterministic part that fits the memory budget."""

    name = "cache"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal, single_pass_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the legal cache with the largest predicted gain, then the smaller, then the later.

        No probe can tell the copying of elements into a batch from computing them, and a
        cached batch needs no copy. So where memory is plentiful, the later cache wins.
        """
        cacheable = cacheable_stages(context)
        if isinstance(cacheable, Skipped):
            return cacheable
        budget = context.memory_budget_bytes
        forms = [form for s in cacheable for form in cacheable_forms(s, budget)]
        fitting = [s for s in forms if cache_bytes(s) <= budget]
        if not fitting:
            return memory_refusal(min(map(cache_bytes, forms)), budget)
        costs = context.costs
        least = max(1, min(cache_bytes(s) for s in fitting))
        best = max(
            fitting,
            key=lambda s: (
                round(predict_gain(costs, costs.with_cached_stage(s)), 2),
                0.0
                if cache_bytes(s) < _NEGLIGIBLE_SHARE * budget
                else -round(cache_bytes(s) / least, 1),
                s.index,
            ),
        )
        return CacheCandidate(
            stage=best,
            costs=costs,
            cached_costs=costs.with_cached_stage(best),
            edit=Cache(stage=best.index, expected_digest="", size_bytes=cache_bytes(best)),
            location=f"in {cache_bytes(best) / 1e9:.3g} GB of memory",
        ).propose(context)


def cacheable_stages(context: Context) -> tuple[Stage, ...] | Skipped:
    """Find the stages whose elements can be cached between epochs, in memory or in files."""
    legal = [s for s in context.stages if s.cache_point]
    cacheable = tuple(s for s in legal if is_cache_filled(context.diagnosis, s))
    return cacheable or Skipped(reason=_NEVER_FULL if legal else _NOTHING_TO_KEEP)


def cache_bytes(stage: Stage) -> int:
    """Return the bytes of all elements of a stage, or of a form of it."""
    return stage.cache_point.memory_bytes if stage.cache_point else 0


class CacheCandidate(Record, frozen=True, kw_only=True):
    """A cache to propose.

    Attributes:
        stage: A form of the stage whose elements are cached.
        costs: Of a step without the cache.
        cached_costs: Of a step that reads from the cache.
        edit: The edit, which expects no particular pipeline.
        location: In words, with the size.
        source_edit: The same by hand; by default that of a cache in memory.
    """

    stage: Stage
    costs: StepCosts
    cached_costs: StepCosts
    edit: Cache | DiskCache
    location: str
    source_edit: str = ""

    def propose(self, context: Context) -> Proposal:
        """Propose the cache with the edits that belong to it, or after a better first edit."""
        stage = self.stage
        parallel = _in_parallel(ParallelizePrefixOptimization().propose(context), stage)
        first = ""
        if self._saves_more(context, VectorizeOptimization().propose(context)):
            first = VectorizeOptimization.name
        elif not parallel and self._fills_faster(context, InlineMapOptimization().propose(context)):
            first = InlineMapOptimization.name
        part = (
            "the deterministic part"
            if stage.narrow_prefix is None
            else "everything before the cast"
        )
        what = f"{part} of {stage.name or 'the map'}" if stage.deterministic_prefix else stage.kind
        source = self.source_edit or (
            _NARROW if stage.deterministic_prefix and stage.narrow_prefix else _SOURCE
        )
        return Proposal(
            edits=self._edits(context, parallel),
            predicted=predict_gain(self.costs, self.cached_costs),
            at=stage.at,
            rationale=(
                f"{what} is computed once{', in parallel,' if parallel else ''} and cached "
                f"{self.location}"
            ),
            source_edit=source,
            prerequisite=first,
        )

    def _edits(self, context: Context, parallel: tuple[Edit, ...]) -> tuple[Edit, ...]:
        digest = context.pipeline_digest
        edits: tuple[Edit, ...] = (replace(self.edit, expected_digest=digest),)
        if parallel:  # the digest after these edits is not known yet
            edits = (*parallel, self.edit)
        if self.stage.deterministic_prefix is not None:
            # The prefix takes the position of the map. The digest after the split is not known
            # before the split is built, so the cache that follows expects none.
            edits = (SplitMap(stage=self.stage.index, expected_digest=digest), self.edit)
        return (*edits, *following_autotune_off_edits(context, self.cached_costs))

    def _saves_more(self, context: Context, vectorized: Proposal | Skipped) -> bool:
        """Whether the cached stages should be vectorized first.

        The first epoch counts: a cache saves nothing of it, and of few epochs it is a large
        part. After vectorizing, the batches can be cached where they repeat, or else the
        stages upstream of the moved maps.
        """
        if isinstance(vectorized, Skipped):
            return False
        moved = {edit.stage for edit in vectorized.edits if isinstance(edit, VectorizeMap)}
        if not moved & set(subtree_indices(self.stage)):
            return False
        first_s = self.costs.with_vectorized_stages(moved).step_s()
        cached_s = self.cached_costs.step_s()
        later_s = cached_s if _fit_after(context, max(moved)) else first_s
        later = context.workload.min_passes - 1
        return first_s + later * later_s < _CLEARLY_LESS_RATIO * (self._first_s + later * cached_s)

    def _fills_faster(self, context: Context, inlined: Proposal | Skipped) -> bool:
        """Whether the first epoch, which fills the cache, is long enough to be shortened first."""
        if isinstance(inlined, Skipped):
            return False
        later_s = (context.workload.min_passes - 1) * self.cached_costs.step_s()
        moved = {edit.stage for edit in inlined.edits if isinstance(edit, InlineMap)}
        first_s = self._first_s
        return self.costs.with_inlined_stages(moved).step_s() + later_s < _CLEARLY_LESS_RATIO * (
            first_s + later_s
        )

    @property
    def _first_s(self) -> float:
        """Seconds of a step of the first epoch."""
        return min(self.costs.step_s(), self.costs.measured_step_s)


def _fit_after(context: Context, highest: int) -> bool:
    """Whether batches of what a map computes could be cached as they are."""
    after = (s for s in context.stages if s.index > highest and highest in subtree_indices(s))
    batches = (s for s in after if s.kind in _BATCHES and s.cache_point)
    return any(cache_bytes(s) <= context.memory_budget_bytes for s in batches)


def _in_parallel(answer: Proposal | Skipped, stage: Stage) -> tuple[Edit, ...]:
    """For the epoch that fills the cache: an upstream map that is deterministic as a whole."""
    if isinstance(answer, Skipped) or stage.deterministic_prefix is not None:
        return ()
    below = subtree_indices(stage)
    return tuple(e for e in answer.edits if isinstance(e, ParallelMap) and e.stage in below)
