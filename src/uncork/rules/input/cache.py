"""The same elements made, or read from files, again in every epoch.

``cache_missing``, ``cache_misplaced``; ``storage_bound`` where a cache in files is what costs time.
"""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of
from uncork.core.costmodel.cache_candidates import filled, forms_to_keep
from uncork.core.costmodel.step_cost import gain, worth_vectorizing
from uncork.core.documents.diagnosis import Cause, Finding, WorkloadDiagnosis
from uncork.core.evidence.stage import Stage
from uncork.rules.base.thresholds import WORTH, bound, input_share, interval, ms, place

# Share of the memory still available that a cache may take: the training itself must grow, too.
MEMORY_SHARE = 0.5


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding: the cache that would win most among those that fit."""
    if diagnosis.workload.passes < 2 or input_share(diagnosis) <= 1 - 1 / WORTH:
        return
    found = costs_of(diagnosis, machine.cpus)
    # What is expensive only because it is done piece by piece is not a cache's to spare: what
    # counts is what a cache wins once whole batches are worked on.
    costs = found.vectorized(worth_vectorizing(found))
    room = MEMORY_SHARE * diagnosis.memory_available_bytes
    legal = [s for s in diagnosis.stages if s.cache_point and filled(diagnosis, s)]
    forms = [form for s in legal for form in forms_to_keep(s, room)]
    fitting = [s for s in forms if s.cache_point and s.cache_point.memory_bytes <= room]
    best = min(fitting, key=lambda s: costs.cached(s).step_s(), default=None)
    # What the model leaves unexplained of a step, a cache does not take away.
    if best is None or gain(costs, costs.cached(best)) < WORTH:
        return
    upper = bound(diagnosis.step_s, costs.cached(best).step_s()) / gain(found, costs)
    if upper >= WORTH:
        yield _finding(diagnosis, best, upper)


def _on_the_way(one: Stage, other: Stage) -> bool:
    """One of the two is made from the other."""
    below, above = sorted((one, other), key=lambda stage: stage.index)
    return above.first <= below.index


def _finding(diagnosis: WorkloadDiagnosis, stage: Stage, upper: float) -> Finding:
    there = next((s for s in diagnosis.stages if s.kind == "cache" and _on_the_way(s, stage)), None)
    cause, evidence, remedy = _told(stage, there)
    if diagnosis.workload.data_made_anew:
        remedy += "; make that dataset once, before the loop over epochs"
    return Finding(
        cause=cause,
        share=input_share(diagnosis),
        upper_bound=upper,
        interval=interval(diagnosis, "input", upper),
        at=there.at if there else stage.at,
        evidence=evidence,
        remedy=remedy,
    )


def _told(stage: Stage, there: Stage | None) -> tuple[Cause, str, str]:
    """What is wrong, how that is seen, and what to do."""
    point = stage.cache_point
    assert point is not None
    taken = f"they take {point.memory_bytes / 1e9:.3g} GB"
    read_s = there.cpu_s_per_step or 0.0 if there and there.in_files else 0.0
    if read_s > point.saved_cpu_s_per_step / 2:
        return (
            "storage_bound",
            f"the same {point.elements:,} elements are read from the files of this cache in every "
            f"epoch, one after the other: {ms(read_s)} of CPU a step; in memory {taken}",
            "cache() without a file name, or a second one behind it where making them takes long",
        )
    part = ""
    if stage.prefix:
        part = "before it is widened, " if stage.narrow else "the deterministic part of "
    but = f"in spite of the cache{f' at {there.at}' if there.at else ''}, " if there else ""
    return (
        "cache_misplaced" if there else "cache_missing",
        f"{but}{part}{place(stage)} gives the same {point.elements:,} elements every epoch, "
        f"{ms(point.saved_cpu_s_per_step)} of CPU a step; {taken}",
        "cache() after the deterministic part, before the random one and before shuffle",
    )
