"""A function started anew for every element, to do very little: ``per_element_work``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.costmodel import costs_of, gain, worth_vectorizing
from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.rules.evidence import WORTH, bound, input_share, interval, ms, place


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding: the map below a batch that would be spared most as a map above it."""
    costs = costs_of(diagnosis, machine.cpus)
    chosen = worth_vectorizing(costs)
    at_once = costs.vectorized(chosen)
    upper = bound(diagnosis.step_s, at_once.step_s())
    if min(gain(costs, at_once), upper) < WORTH or input_share(diagnosis) <= 1 - 1 / WORTH:
        return
    pairs = [(diagnosis.stages[i], at_once.stages[i]) for i in chosen]
    stage, vectorized = max(
        pairs, key=lambda pair: (pair[0].cpu_s_per_step or 0.0) - (pair[1].cpu_s_per_step or 0.0)
    )
    yield Finding(
        cause="per_element_work",
        share=min(input_share(diagnosis), 1 - 1 / upper),
        upper_bound=upper,
        interval=interval(diagnosis, "input", upper),
        at=stage.at,
        evidence=(
            f"{place(stage)} is called for one element after the other: "
            f"{ms(stage.cpu_s_per_step)} of CPU a step; called once for all of a batch, the same "
            f"function takes {ms(vectorized.cpu_s_per_step)}"
        ),
        remedy="batch() first, then a map that takes whole batches",
    )
