"""The same elements made, or read from files, again in every epoch.

``cache_missing``, ``cache_misplaced``; ``storage_bound`` where a cache in files is what costs time.
"""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.cache_candidates import cacheable_forms, is_cache_filled
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.costmodel.worthwhile_stages import stages_worth_vectorizing
from uncork.core.documents.diagnosis import Cause, Finding, WorkloadDiagnosis
from uncork.core.evidence.stage import Stage
from uncork.rules.base.findings import input_finding, waits_for_input
from uncork.rules.base.thresholds import (
    MIN_FINDING_SPEEDUP,
    format_ms,
    input_share,
    speedup_bound,
    stage_label,
)

# Share of the memory still available that a cache may take: the training itself must grow, too.
MAX_MEMORY_SHARE = 0.5


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding: the cache that would win most among those that fit."""
    if diagnosis.workload.min_passes < 2 or not waits_for_input(diagnosis):
        return
    found = attribute_costs(diagnosis, machine.cpus)
    # What is expensive only because it is done piece by piece is not a cache's to spare: what
    # counts is what a cache wins once whole batches are worked on.
    costs = found.with_vectorized_stages(stages_worth_vectorizing(found))
    room = MAX_MEMORY_SHARE * diagnosis.memory_available_bytes
    legal = [s for s in diagnosis.stages if s.cache_point and is_cache_filled(diagnosis, s)]
    forms = [form for s in legal for form in cacheable_forms(s, room)]
    fitting = [s for s in forms if s.cache_point and s.cache_point.memory_bytes <= room]
    best = min(fitting, key=lambda s: costs.with_cached_stage(s).step_s(), default=None)
    # What the model leaves unexplained of a step, a cache does not take away.
    if best is None or predict_gain(costs, costs.with_cached_stage(best)) < MIN_FINDING_SPEEDUP:
        return
    upper = speedup_bound(diagnosis.step_s, costs.with_cached_stage(best).step_s()) / predict_gain(
        found, costs
    )
    yield from _finding(diagnosis, best, upper)


def _on_the_way(one: Stage, other: Stage) -> bool:
    """One of the two is made from the other."""
    below, above = sorted((one, other), key=lambda stage: stage.index)
    return above.first_index <= below.index


def _finding(diagnosis: WorkloadDiagnosis, stage: Stage, upper: float) -> Iterator[Finding]:
    there = next((s for s in diagnosis.stages if s.kind == "cache" and _on_the_way(s, stage)), None)
    cause, evidence, remedy = _told(stage, there)
    if diagnosis.workload.is_dataset_recreated:
        remedy += "; create that dataset once, before the loop over epochs"
    at = there.at if there else stage.at
    return input_finding(
        diagnosis, cause, upper, at, evidence, remedy, share=input_share(diagnosis)
    )


def _told(stage: Stage, there: Stage | None) -> tuple[Cause, str, str]:
    """What is wrong, how that is seen, and what to do."""
    point = stage.cache_point
    assert point is not None
    taken = f"they need {point.memory_bytes / 1e9:.3g} GB"
    read_s = there.cpu_s_per_step or 0.0 if there and there.is_file_cache else 0.0
    if read_s > point.saved_cpu_s_per_step / 2:
        return (
            "storage_bound",
            f"every epoch reads the same {point.element_count:,} elements from the files of this "
            f"cache, one after the other: {format_ms(read_s)} of CPU a step; in memory {taken}",
            "use cache() without a file name, or add a second cache() after it if creating the "
            "elements takes long",
        )
    part = ""
    if stage.deterministic_prefix:
        part = (
            "before the cast to a wider type, "
            if stage.narrow_prefix
            else "the deterministic part of "
        )
    but = f"despite the cache{f' at {there.at}' if there.at else ''}, " if there else ""
    return (
        "cache_misplaced" if there else "cache_missing",
        f"{but}{part}{stage_label(stage)} creates the same {point.element_count:,} elements in "
        f"every epoch: {format_ms(point.saved_cpu_s_per_step)} of CPU a step; {taken}",
        "add cache() after the deterministic part, before the random one and before shuffle",
    )
