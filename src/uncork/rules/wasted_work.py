"""Elements that are made and then dropped: ``wasted_work``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from uncork.core.costmodel import costs_of, gain
from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.core.stage import Stage
from uncork.rules.evidence import WORTH, bound, input_share, interval, ms, place

_DROPPING = ("filter",)


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each stage that drops what expensive stages before it have made."""
    costs = costs_of(diagnosis, machine.cpus)
    for below, stage in itertools.pairwise(diagnosis.stages):
        kept = _kept(below, stage)
        if kept is None or input_share(diagnosis) <= 1 - 1 / WORTH:
            continue
        spared = costs.fewer(stage.index, kept)
        upper = bound(diagnosis.step_s, spared.step_s())
        if gain(costs, spared) < WORTH or upper < WORTH:
            continue
        wasted_s = costs.cpu_s() - spared.cpu_s()
        yield Finding(
            cause="wasted_work",
            share=min(input_share(diagnosis), 1 - 1 / upper),
            upper_bound=upper,
            interval=interval(diagnosis, "input", upper),
            at=stage.at,
            evidence=(
                f"{place(stage)} keeps {kept:.0%} of its elements; what was done for the others "
                f"takes {ms(wasted_s)} of CPU a step"
            ),
            remedy="drop elements before the expensive maps, as soon as what decides is known",
        )


def _kept(below: Stage, stage: Stage) -> float | None:
    """Share of elements that pass; None where nothing is dropped, or it is not known."""
    if stage.kind not in _DROPPING or not below.elements_per_step or not stage.elements_per_step:
        return None
    kept = stage.elements_per_step / below.elements_per_step
    return kept if kept < 1 else None
