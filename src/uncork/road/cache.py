"""Keep what every epoch makes again, as late as randomness and memory allow.

Legal because a cache repeats its first pass, and it is placed only above stages that would repeat
it anyway: deterministic, finite, in the same order. A random map is cut first, so that its random
part stays behind the cache and alive. Where memory is short, a map that ends with a cast to a wider
dtype is cut before it: the same ops then widen what the cache holds, in every epoch. A shuffle or
repeat in between changes places with the deterministic 1:1 maps above it: it permutes positions,
whatever stands in them.

A cache saves nothing of the first epoch. Where all epochs together take less time with the maps
called for whole batches, that is tried first, and then a cache of what lies below them; so is what
makes the first epoch itself much shorter.

Where the cache makes epochs very short, the autotuner goes with it: there is nothing left for it to
tune, and every epoch would end in waiting for it (see ``autotune_off``).
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.branches import made_from
from uncork.core.costmodel import StepCosts, costs_of, filled, forms_to_keep, gain
from uncork.core.diagnosis import WorkloadDiagnosis
from uncork.core.edit import Cache, Edit, InlineMap, ParallelMap, SplitMap, VectorizeMap
from uncork.core.machine import Machine
from uncork.core.plan import Policy
from uncork.core.record import replace
from uncork.core.stage import Stage
from uncork.road.autotune_off import hushed, without_autotuner
from uncork.road.inline_map import RunInline
from uncork.road.parallelize_prefix import ParallelizePrefix
from uncork.road.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    no_pipeline,
    not_worth,
    read_once,
)
from uncork.road.vectorize import VectorizeMaps

_NOTHING_TO_KEEP: Final = "no deterministic, finite part that is not cached already"
# Of the memory that caches may take, what is not worth a thought.
_LITTLE: Final = 0.05
# Of the time of all epochs: what is predicted to take no less is not worth another order of trials.
_CLEARLY: Final = 0.8
_NEVER_FULL: Final = "the loop leaves the data before a cache would be complete"
_SOURCE: Final = """\
dataset.map(deterministic_part, num_parallel_calls=tf.data.AUTOTUNE).cache()
       .shuffle(...)       # behind the cache, or the order freezes
       .map(random_part)   # behind the cache, or the augmentation freezes"""
_NARROW: Final = """\
dataset.map(all_but_the_cast, num_parallel_calls=tf.data.AUTOTUNE).cache()  # bytes, not floats
       .map(lambda image, label: (tf.cast(image, tf.float32) / 255.0, label))"""


@final
class CacheDeterministic(Optimization):
    """Cache the longest deterministic part that fits the memory budget."""

    name = "cache"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The legal cache predicted to win most; of equal ones the smaller, then the later.

        Batches are put together by copying, which no probe tells apart from making what they hold:
        kept as they are, they are handed out without. Where memory is no matter, the later wins.
        """
        missing = no_pipeline(diagnosis) or read_once(diagnosis)
        if missing:
            return missing
        legal = [s for s in diagnosis.stages if s.cache_point]
        lasting = [s for s in legal if filled(diagnosis, s)]
        if not lasting:
            return Skipped(reason=_NEVER_FULL if legal else _NOTHING_TO_KEEP)
        room = policy.memory_share * diagnosis.memory_available_bytes
        forms = [form for s in lasting for form in forms_to_keep(s, room)]
        fitting = [s for s in forms if _bytes(s) <= room]
        if not fitting:
            smallest = min(_bytes(s) for s in forms)
            return Skipped(
                reason=f"needs {smallest / 1e9:.1f} GB of memory, the budget is {room / 1e9:.1f} GB"
            )
        costs = costs_of(diagnosis, machine.cpus)
        least = max(1, min(_bytes(s) for s in fitting))
        best = max(
            fitting,
            key=lambda s: (
                round(gain(costs, costs.cached(s)), 2),
                0.0 if _bytes(s) < _LITTLE * room else -round(_bytes(s) / least, 1),
                s.index,
            ),
        )
        predicted = gain(costs, costs.cached(best))
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        parallel = _in_parallel(ParallelizePrefix().propose(diagnosis, machine, policy), best)
        quiet = hushed(diagnosis, costs.cached(best))
        found = _proposal(diagnosis, best, predicted, parallel, quiet=quiet)
        first = ""
        if _saves_more(diagnosis, costs, best, VectorizeMaps().propose(diagnosis, machine, policy)):
            first = VectorizeMaps.name
        elif not parallel and _fills_faster(
            diagnosis, costs, best, RunInline().propose(diagnosis, machine, policy)
        ):
            first = RunInline.name
        return replace(found, first=first)


def _saves_more(
    diagnosis: WorkloadDiagnosis, costs: StepCosts, stage: Stage, stacked: Proposal | Skipped
) -> bool:
    """Whether what a cache would keep had better be made a batch at a time, in every epoch.

    The first epoch counts: a cache saves nothing of it, and of few epochs it is a large part. What
    lies below the maps that were moved can be kept afterwards.
    """
    if isinstance(stacked, Skipped):
        return False
    moved = {edit.stage for edit in stacked.edits if isinstance(edit, VectorizeMap)}
    if not moved & set(made_from(stage)):
        return False
    epochs = diagnosis.workload.epochs
    first_s = min(costs.step_s(), costs.measured_s)
    kept_s = first_s + (epochs - 1) * costs.cached(stage).step_s()
    return epochs * costs.vectorized(moved).step_s() < _CLEARLY * kept_s


def _fills_faster(
    diagnosis: WorkloadDiagnosis, costs: StepCosts, stage: Stage, inlined: Proposal | Skipped
) -> bool:
    """Whether the first epoch, which fills the cache, weighs enough to be made brief first."""
    if isinstance(inlined, Skipped):
        return False
    later_s = (diagnosis.workload.epochs - 1) * costs.cached(stage).step_s()
    moved = {edit.stage for edit in inlined.edits if isinstance(edit, InlineMap)}
    first_s = min(costs.step_s(), costs.measured_s)
    return costs.inlined(moved).step_s() + later_s < _CLEARLY * (first_s + later_s)


def _bytes(stage: Stage) -> int:
    return stage.cache_point.memory_bytes if stage.cache_point else 0


def _in_parallel(answer: Proposal | Skipped, stage: Stage) -> tuple[Edit, ...]:
    """For the epoch that fills it: a serial map below, which as a whole repeats itself."""
    if isinstance(answer, Skipped) or stage.prefix is not None:
        return ()
    below = made_from(stage)
    return tuple(e for e in answer.edits if isinstance(e, ParallelMap) and e.stage in below)


def _proposal(
    diagnosis: WorkloadDiagnosis,
    stage: Stage,
    predicted: float,
    parallel: tuple[Edit, ...],
    *,
    quiet: bool,
) -> Proposal:
    digest = diagnosis.workload.pipeline
    expects = "" if parallel else digest  # the tree that is left then is not known yet
    cache = Cache(stage=stage.index, expects=expects, bytes=_bytes(stage))
    edits: tuple[Edit, ...] = (*parallel, cache)
    if stage.prefix is not None:
        # The split puts its prefix where the map stood. The tree it leaves is not known before it
        # is built, so the cache that follows takes it as it comes.
        edits = (
            SplitMap(stage=stage.index, expects=digest),
            Cache(stage=stage.index, expects="", bytes=_bytes(stage)),
        )
    if quiet:
        edits += without_autotuner(diagnosis, expects="")
    part = "the deterministic part" if stage.narrow is None else "all but the widening"
    what = f"{part} of {stage.name or 'the map'}" if stage.prefix else stage.kind
    return Proposal(
        edits=edits,
        predicted=predicted,
        at=stage.at,
        why=f"{what} is made once{', in parallel,' if parallel else ''} and kept in "
        f"{_bytes(stage) / 1e9:.3g} GB of memory",
        source_edit=_NARROW if stage.prefix and stage.narrow else _SOURCE,
    )
