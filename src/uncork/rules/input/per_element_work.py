"""A function started anew for every element, to do very little: ``per_element_work``."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.step_cost import StepCosts
from uncork.core.costmodel.worthwhile_stages import stages_worth_inlining, stages_worth_vectorizing
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import costs_bound, input_finding, waits_for_input
from uncork.rules.base.thresholds import format_ms, stage_label

# Evidence and remedy.
_AT_ONCE: Final = (
    "{map} runs once for each element: {now} of CPU a step; vectorized over a batch, the same "
    "function takes {then}",
    "call batch() first, then a map over whole batches",
)
_IN_PART: Final = (
    "{map} runs once for each element: {now} of CPU a step; if the part after {behind} is "
    "vectorized over a batch, it takes {then}",
    "split the function: a map up to there, batch(), then a map over whole batches",
)
_INLINE: Final = (
    "{map} passes every element to another thread and waits: {now} of CPU a step; in the thread "
    "that requests the elements, the same function takes {then}",
    "'uncork tune' runs it in that thread (inline_map); by hand, call batch() first, then a map "
    "over whole batches, if the function supports that",
)


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding: the map below a batch that would be spared most as a map above it.

    Or, where that saves more or none can stand there, the one that would be spared most in the
    thread that asks for its elements, instead of another one that is woken for each.
    """
    costs = attribute_costs(diagnosis, machine.cpus)
    stacked, inline = stages_worth_vectorizing(costs), stages_worth_inlining(costs)
    at_once, here = costs.with_vectorized_stages(stacked), costs.with_inlined_stages(inline)
    if at_once.step_s() <= here.step_s():
        yield from _told(diagnosis, costs, at_once, stacked, _AT_ONCE)
    else:
        yield from _told(diagnosis, costs, here, inline, _INLINE)


def _told(
    diagnosis: WorkloadDiagnosis,
    costs: StepCosts,
    spared: StepCosts,
    chosen: Collection[int],
    told: tuple[str, str],
) -> Iterator[Finding]:
    if not chosen or not waits_for_input(diagnosis):
        return
    upper = costs_bound(diagnosis, costs, spared)
    pairs = [(diagnosis.stages[i], spared.stages[i]) for i in chosen]
    stage, cheaper = max(
        pairs, key=lambda pair: (pair[0].cpu_s_per_step or 0.0) - (pair[1].cpu_s_per_step or 0.0)
    )
    behind = stage.vectorized_cost.unbatched_ops if stage.vectorized_cost else ()
    evidence, remedy = _IN_PART if behind and told is _AT_ONCE else told
    evidence = evidence.format(
        map=stage_label(stage),
        behind=" and ".join(behind),
        now=format_ms(stage.cpu_s_per_step),
        then=format_ms(cheaper.cpu_s_per_step),
    )
    yield from input_finding(diagnosis, "per_element_work", upper, stage.at, evidence, remedy)
