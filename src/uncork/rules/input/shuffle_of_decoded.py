"""A shuffle that holds pictures where names would do: ``shuffle_of_decoded``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of, unexplained_s
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.stage import Buffer
from uncork.rules.base.thresholds import WORTH, bound


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each shuffle that is filled with dear elements while the training waits."""
    costs = costs_of(diagnosis, machine.cpus).sparing(unexplained_s(diagnosis))
    for stage in diagnosis.stages:
        if stage.buffer is None or not stage.elements_per_step:
            continue
        upper = bound(costs.refilled_s(stage.index), costs.step_s())
        if upper < WORTH:
            continue
        steps = stage.buffer.of / stage.elements_per_step
        filling_s = (costs.refilled_s(stage.index) - costs.step_s()) * steps
        yield Finding(
            cause="shuffle_of_decoded",
            share=1 - 1 / upper,
            upper_bound=upper,
            at=stage.at,
            evidence=(
                f"its buffer of {stage.buffer.elements:,} elements is filled before the first "
                f"batch of each pass, while nothing is trained: {filling_s:.2g} s; "
                f"{_held(stage.bytes_per_element, stage.buffer)}"
            ),
            remedy="shuffle() before the maps: names, indices or records instead of what they hold",
        )


def _held(now: int | None, buffer: Buffer) -> str:
    if now is None:
        return "before the maps elements are smaller"
    sizes = (each * buffer.elements / 1e6 for each in (now, buffer.bytes_per_element))
    return "it holds {:,.1f} MB, before the maps {:,.1f} MB".format(*sizes)
