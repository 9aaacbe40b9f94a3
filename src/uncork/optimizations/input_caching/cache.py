"""Keep what every epoch makes again, as late as randomness and memory allow.

Legal because a cache repeats its first pass, and it is placed only above stages that would repeat
it anyway: deterministic, finite, in the same order. A random map is cut first, so that its random
part stays behind the cache and alive. Where memory is short, a map that ends with a cast to a wider
dtype is cut before it: the same ops then widen what the cache holds, in every epoch. A shuffle or
repeat in between changes places with the deterministic 1:1 maps above it: it permutes positions,
whatever stands in them.

A cache saves nothing of the first epoch. Where all epochs together take less time with the maps
called for whole batches, that is tried first, and then a cache of these batches, or of what lies
below the maps where a shuffle draws others in every epoch; so is what makes the first epoch itself
much shorter.

Where the cache makes epochs very short, the autotuner goes with it: there is nothing left for it to
tune, and every epoch would end in waiting for it (see ``autotune_off``).
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

_NOTHING_TO_KEEP: Final = "no deterministic, finite part that is not cached already"
# Of the memory that caches may take, what is not worth a thought.
_LITTLE: Final = 0.05
# Of the time of all epochs: what is predicted to take no less is not worth another order of trials.
_CLEARLY: Final = 0.8
_BATCHES: Final = ("batch", "padded_batch")
_NEVER_FULL: Final = "the loop leaves the data before a cache would be complete"
_SOURCE: Final = """\
dataset.map(deterministic_part, num_parallel_calls=tf.data.AUTOTUNE).cache()
       .shuffle(...)       # behind the cache, or the order freezes
       .map(random_part)   # behind the cache, or the augmentation freezes"""
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
        """The legal cache predicted to win most; of equal ones the smaller, then the later.

        Batches are put together by copying, which no probe tells apart from making what they hold:
        kept as they are, they are handed out without. Where memory is no matter, the later wins.
        """
        lasting = cacheable_stages(context)
        if isinstance(lasting, Skipped):
            return lasting
        budget = context.memory_budget_bytes
        forms = [form for s in lasting for form in cacheable_forms(s, budget)]
        fitting = [s for s in forms if cache_bytes(s) <= budget]
        if not fitting:
            return memory_refusal(min(map(cache_bytes, forms)), budget)
        costs = context.costs
        least = max(1, min(cache_bytes(s) for s in fitting))
        best = max(
            fitting,
            key=lambda s: (
                round(predict_gain(costs, costs.with_cached_stage(s)), 2),
                0.0 if cache_bytes(s) < _LITTLE * budget else -round(cache_bytes(s) / least, 1),
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
    """Stages whose elements could be kept from one epoch to the next, wherever that is."""
    legal = [s for s in context.stages if s.cache_point]
    lasting = tuple(s for s in legal if is_cache_filled(context.diagnosis, s))
    return lasting or Skipped(reason=_NEVER_FULL if legal else _NOTHING_TO_KEEP)


def cache_bytes(stage: Stage) -> int:
    """What the elements of a stage, or of a form of it, take together."""
    return stage.cache_point.memory_bytes if stage.cache_point else 0


class CacheCandidate(Record, frozen=True, kw_only=True):
    """What is to be kept, and how.

    Attributes:
        stage: A form of the stage whose elements are kept.
        costs: Of a step as it is.
        cached_costs: Of a step that reads what is kept.
        edit: The edit; it takes what it finds.
        location: In words, for what they take there.
        source_edit: The same by hand; that of a cache in memory unless given.
    """

    stage: Stage
    costs: StepCosts
    cached_costs: StepCosts
    edit: Cache | DiskCache
    location: str
    source_edit: str = ""

    def propose(self, context: Context) -> Proposal:
        """With the steps that belong to it, or that had better come first."""
        stage = self.stage
        parallel = _in_parallel(ParallelizePrefixOptimization().propose(context), stage)
        first = ""
        if self._saves_more(context, VectorizeOptimization().propose(context)):
            first = VectorizeOptimization.name
        elif not parallel and self._fills_faster(context, InlineMapOptimization().propose(context)):
            first = InlineMapOptimization.name
        part = "the deterministic part" if stage.narrow_prefix is None else "all but the widening"
        what = f"{part} of {stage.name or 'the map'}" if stage.deterministic_prefix else stage.kind
        source = self.source_edit or (
            _NARROW if stage.deterministic_prefix and stage.narrow_prefix else _SOURCE
        )
        return Proposal(
            edits=self._edits(context, parallel),
            predicted=predict_gain(self.costs, self.cached_costs),
            at=stage.at,
            rationale=(
                f"{what} is made once{', in parallel,' if parallel else ''} and kept "
                f"{self.location}"
            ),
            source_edit=source,
            prerequisite=first,
        )

    def _edits(self, context: Context, parallel: tuple[Edit, ...]) -> tuple[Edit, ...]:
        digest = context.pipeline_digest
        edits: tuple[Edit, ...] = (replace(self.edit, expected_digest=digest),)
        if parallel:  # the tree that is left then is not known yet
            edits = (*parallel, self.edit)
        if self.stage.deterministic_prefix is not None:
            # The split puts its prefix where the map stood. The tree it leaves is not known before
            # it is built, so the cache that follows takes it as it comes.
            edits = (SplitMap(stage=self.stage.index, expected_digest=digest), self.edit)
        return (*edits, *following_autotune_off_edits(context, self.cached_costs))

    def _saves_more(self, context: Context, stacked: Proposal | Skipped) -> bool:
        """Whether what would be kept had better be made a batch at a time.

        The first epoch counts: a cache saves nothing of it, and of few epochs it is a large part.
        The batches can be kept afterwards where they repeat themselves, or what lies below the maps
        that were moved.
        """
        if isinstance(stacked, Skipped):
            return False
        moved = {edit.stage for edit in stacked.edits if isinstance(edit, VectorizeMap)}
        if not moved & set(subtree_indices(self.stage)):
            return False
        first_s = self.costs.with_vectorized_stages(moved).step_s()
        kept_s = self.cached_costs.step_s()
        later_s = kept_s if _fit_behind(context, max(moved)) else first_s
        later = context.workload.min_passes - 1
        return first_s + later * later_s < _CLEARLY * (self._first_s + later * kept_s)

    def _fills_faster(self, context: Context, inlined: Proposal | Skipped) -> bool:
        """Whether the first epoch, which fills it, weighs enough to be made brief first."""
        if isinstance(inlined, Skipped):
            return False
        later_s = (context.workload.min_passes - 1) * self.cached_costs.step_s()
        moved = {edit.stage for edit in inlined.edits if isinstance(edit, InlineMap)}
        first_s = self._first_s
        return self.costs.with_inlined_stages(moved).step_s() + later_s < _CLEARLY * (
            first_s + later_s
        )

    @property
    def _first_s(self) -> float:
        """Of a step of the first epoch."""
        return min(self.costs.step_s(), self.costs.measured_step_s)


def _fit_behind(context: Context, highest: int) -> bool:
    """Whether batches of what a map makes could be kept as they are."""
    behind = (s for s in context.stages if s.index > highest and highest in subtree_indices(s))
    batches = (s for s in behind if s.kind in _BATCHES and s.cache_point)
    return any(cache_bytes(s) <= context.memory_budget_bytes for s in batches)


def _in_parallel(answer: Proposal | Skipped, stage: Stage) -> tuple[Edit, ...]:
    """For the epoch that fills it: a serial map below, which as a whole repeats itself."""
    if isinstance(answer, Skipped) or stage.deterministic_prefix is not None:
        return ()
    below = subtree_indices(stage)
    return tuple(e for e in answer.edits if isinstance(e, ParallelMap) and e.stage in below)
