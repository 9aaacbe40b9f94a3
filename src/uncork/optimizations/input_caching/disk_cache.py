"""Cache in files what every epoch computes again, where it does not fit into memory.

Legal because a cache in files takes the position of one in memory (see ``cache``), and repeats its
first pass in the same way. Each process writes its own files and removes them at its end: runs
share nothing, so nothing can be out of date.

One thread reads the files and verifies a checksum of each record; what exceeds the page cache comes
from the disk. So Uncork measures the folder first, and predicts reading as work that the step may
wait for. Where computing the elements again is faster, Uncork caches nothing. Writing also costs
time, which the remaining epochs must win back.

Uncork writes files only if the user names a folder.
"""

from __future__ import annotations

import math
from typing import Final, final

from uncork.core.costmodel.cache_candidates import cacheable_forms
from uncork.core.costmodel.step_cost import StepCosts, predict_gain
from uncork.core.edits.pipeline import DiskCache
from uncork.core.evidence.stage import Stage
from uncork.core.evidence.storage import CacheFolder, cache_files_bytes
from uncork.optimizations.base.preconditions import (
    pipeline_refusal,
    single_pass_refusal,
    strategy_refusal,
)
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    best_gain,
    is_worth_trying,
)
from uncork.optimizations.input_caching.cache import CacheCandidate, cache_bytes, cacheable_stages

# During the trial there are two caches: one is timed, one is compared.
_CACHE_COUNT: Final = 2
# Share of the time budget. The proof fills the cache and compares two epochs with the original.
_MAX_BUDGET_SHARE: Final = 1 / 18
# Bytes of each element, in memory until the files are complete.
_INDEX_BYTES: Final = 500
_SOURCE: Final = """\
dataset.map(deterministic_part, num_parallel_calls=tf.data.AUTOTUNE).cache(tempfile.mkdtemp() + "/")
       .shuffle(...)       # after the cache, or every epoch has the same order
       .map(random_part)   # after the cache, or every epoch has the same augmentation"""


@final
class DiskCacheOptimization(Optimization):
    """Cache the deterministic part in files where it exceeds the memory budget."""

    name = "disk_cache"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal, single_pass_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the legal cache with the largest predicted gain, then the smaller, the later."""
        cacheable = cacheable_stages(context)
        if isinstance(cacheable, Skipped):
            return cacheable
        costs = context.costs
        forms = [form for s in cacheable for form in cacheable_forms(s, 0.0)]
        in_memory = [form for form in forms if cache_bytes(form) <= context.memory_budget_bytes]
        if in_memory and is_worth_trying(best_gain(costs, in_memory, costs.with_cached_stage)[1]):
            return Skipped(reason="the elements fit into memory: see cache")
        reason, disk = _folder_refusal(context), context.diagnosis.cache_folder
        if reason or disk is None:
            return Skipped(reason=reason)
        fitting = [form for form in forms if _needed_bytes(form) <= disk.free_bytes]
        if not fitting:
            needed = min(map(_needed_bytes, forms))
            return Skipped(
                reason=f"the trial needs {needed / 1e9:.3g} GB in the folder of --disk-cache, "
                f"{disk.free_bytes / 1e9:.3g} GB are free"
            )
        best = max(
            fitting,
            key=lambda s: (
                round(predict_gain(costs, _cached_costs(costs, s, disk)), 2),
                -_value_bytes(s),
                s.index,
            ),
        )
        candidate = CacheCandidate(
            stage=best,
            costs=costs,
            cached_costs=_cached_costs(costs, best, disk),
            edit=DiskCache(
                stage=best.index,
                expected_digest="",
                size_bytes=_value_bytes(best),
                folder=disk.path,
            ),
            location=f"in {_value_bytes(best) / 1e9:.3g} GB of files",
            source_edit=_SOURCE,
        )
        return _unprofitable_refusal(context, candidate, disk) or candidate.propose(context)


def _folder_refusal(context: Context) -> str:
    """Set when there is no folder for files."""
    disk = context.diagnosis.cache_folder
    if disk is None:
        return "Uncork caches in files only if you name a folder: --disk-cache DIR"
    return disk.refusal_reason or strategy_refusal(context)


def _unprofitable_refusal(
    context: Context, candidate: CacheCandidate, disk: CacheFolder
) -> Skipped | None:
    """Set when the epochs are too few to win back the writing, or too long to be compared."""
    point, now = candidate.stage.cache_point, candidate.costs
    per_step = candidate.stage.elements_per_step
    is_worthwhile = is_worth_trying(predict_gain(now, candidate.cached_costs))
    if not (is_worthwhile and point and per_step and disk.write_cost):
        return None
    if _INDEX_BYTES * point.element_count > context.diagnosis.memory_available_bytes / 2:
        return Skipped(
            reason=f"the index of {point.element_count:,} elements takes "
            f"{_INDEX_BYTES * point.element_count / 1e9:.1f} GB of memory while TensorFlow writes "
            "the files"
        )
    uncached_s = min(now.step_s(), now.measured_step_s)
    passes = _passes(context, point.element_count / per_step)
    writing_s = per_step * disk.write_cost.wall_s(point.value_bytes / point.element_count)
    saved_s = (passes - 1) * (uncached_s - candidate.cached_costs.step_s())
    if saved_s <= writing_s:
        return Skipped(
            reason="writing the files takes longer than reading them saves in "
            f"{max(0.0, passes):.3g} passes over the data"
        )
    epoch_s = (uncached_s + writing_s) * point.element_count / per_step
    if epoch_s > _MAX_BUDGET_SHARE * context.policy.budget_s:
        return Skipped(
            reason=f"an epoch takes {epoch_s:.0f} s, and the proof compares several: use --budget "
            f"{math.ceil(epoch_s / _MAX_BUDGET_SHARE)}"
        )
    return None


def _passes(context: Context, steps: float) -> float:
    """How often the whole training reads the dataset, which has this number of steps."""
    work = context.workload
    return work.min_passes * (1.0 if work.steps_per_epoch is None else work.steps_per_epoch / steps)


def _cached_costs(costs: StepCosts, stage: Stage, disk: CacheFolder) -> StepCosts:
    return costs.with_disk_cached_stage(stage, disk.read_cost) if disk.read_cost else costs


def _needed_bytes(stage: Stage) -> int:
    return _CACHE_COUNT * cache_files_bytes(_value_bytes(stage))


def _value_bytes(stage: Stage) -> int:
    return stage.cache_point.value_bytes if stage.cache_point else 0
