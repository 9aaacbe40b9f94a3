"""Keep in files what every epoch makes again, where memory has no room for it.

Legal because a cache in files stands where one in memory would (see ``cache``), and repeats its
first pass as that one does. Each process fills files of its own and removes them at its end:
nothing is shared between runs, so nothing can be out of date.

Files are read by one thread, with a checksum over each record, and what does not fit into memory
comes from the disk. So the folder is measured before, and reading from it is reckoned as work that
the step may have to wait for. Where making the elements anew is faster, nothing is kept. Writing
them costs something, too: it must be won back by the epochs that there are.

Nothing is written anywhere unless the user has named a folder.
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

# While it is tried there are two of them: the one that is timed, and the one that is compared.
_AT_ONCE: Final = 2
# Of the budget: the cache is filled, and then two epochs of it are compared with two as written.
_MOST_OF_BUDGET: Final = 1 / 18
# Of each element, in memory until the files are complete.
_INDEX_BYTES: Final = 500
_SOURCE: Final = """\
dataset.map(deterministic_part, num_parallel_calls=tf.data.AUTOTUNE).cache(tempfile.mkdtemp() + "/")
       .shuffle(...)       # behind the cache, or the order freezes
       .map(random_part)   # behind the cache, or the augmentation freezes"""


@final
class DiskCacheOptimization(Optimization):
    """Cache the deterministic part in files where it does not fit the memory budget."""

    name = "disk_cache"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal, single_pass_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """The legal cache predicted to win most; of equal ones the smaller, then the later."""
        lasting = cacheable_stages(context)
        if isinstance(lasting, Skipped):
            return lasting
        costs = context.costs
        forms = [form for s in lasting for form in cacheable_forms(s, 0.0)]
        in_memory = [form for form in forms if cache_bytes(form) <= context.memory_budget_bytes]
        if in_memory and is_worth_trying(best_gain(costs, in_memory, costs.with_cached_stage)[1]):
            return Skipped(reason="memory has room for what would be kept: see cache")
        reason, disk = _folder_refusal(context), context.diagnosis.cache_folder
        if reason or disk is None:
            return Skipped(reason=reason)
        fitting = [form for form in forms if _needed(form) <= disk.free_bytes]
        if not fitting:
            needed = min(map(_needed, forms))
            return Skipped(
                reason=f"needs {needed / 1e9:.3g} GB in the folder of --disk-cache while it is "
                f"tried, {disk.free_bytes / 1e9:.3g} GB are free"
            )
        best = max(
            fitting,
            key=lambda s: (
                round(predict_gain(costs, _kept(costs, s, disk)), 2),
                -_values(s),
                s.index,
            ),
        )
        keeping = CacheCandidate(
            stage=best,
            costs=costs,
            cached_costs=_kept(costs, best, disk),
            edit=DiskCache(
                stage=best.index, expected_digest="", size_bytes=_values(best), folder=disk.path
            ),
            location=f"in {_values(best) / 1e9:.3g} GB of files",
            source_edit=_SOURCE,
        )
        return _in_vain(context, keeping, disk) or keeping.propose(context)


def _folder_refusal(context: Context) -> str:
    """Set when there is nowhere to keep files."""
    disk = context.diagnosis.cache_folder
    if disk is None:
        return "files are kept only where you say so: --disk-cache DIR"
    return disk.refusal_reason or strategy_refusal(context)


def _in_vain(context: Context, keeping: CacheCandidate, disk: CacheFolder) -> Skipped | None:
    """Set when the epochs are too few to win back the writing, or too long to be compared."""
    point, now = keeping.stage.cache_point, keeping.costs
    per_step = keeping.stage.elements_per_step
    is_worthwhile = is_worth_trying(predict_gain(now, keeping.cached_costs))
    if not (is_worthwhile and point and per_step and disk.write_cost):
        return None
    if _INDEX_BYTES * point.element_count > context.diagnosis.memory_available_bytes / 2:
        return Skipped(
            reason=f"the index of {point.element_count:,} elements takes "
            f"{_INDEX_BYTES * point.element_count / 1e9:.1f} GB of memory while the files are "
            "written"
        )
    as_it_is_s = min(now.step_s(), now.measured_step_s)
    passes = _passes(context, point.element_count / per_step)
    writing_s = per_step * disk.write_cost.wall_s(point.value_bytes / point.element_count)
    spared_s = (passes - 1) * (as_it_is_s - keeping.cached_costs.step_s())
    if spared_s <= writing_s:
        return Skipped(
            reason="writing the files takes longer than reading them spares in "
            f"{max(0.0, passes):.3g} passes over the data"
        )
    epoch_s = (as_it_is_s + writing_s) * point.element_count / per_step
    if epoch_s > _MOST_OF_BUDGET * context.policy.budget_s:
        return Skipped(
            reason=f"an epoch takes {epoch_s:.0f} s, and several must be compared: give --budget "
            f"{math.ceil(epoch_s / _MOST_OF_BUDGET)}"
        )
    return None


def _passes(context: Context, steps: float) -> float:
    """How often the whole training goes through the data, of so many steps."""
    work = context.workload
    return work.min_passes * (1.0 if work.steps_per_epoch is None else work.steps_per_epoch / steps)


def _kept(costs: StepCosts, stage: Stage, disk: CacheFolder) -> StepCosts:
    return costs.with_disk_cached_stage(stage, disk.read_cost) if disk.read_cost else costs


def _needed(stage: Stage) -> int:
    return _AT_ONCE * cache_files_bytes(_values(stage))


def _values(stage: Stage) -> int:
    return stage.cache_point.value_bytes if stage.cache_point else 0
