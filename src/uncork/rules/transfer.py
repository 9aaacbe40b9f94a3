"""A step that waits for its batch to be sent to its device: ``transfer``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from uncork.core.costmodel import costs_of, gain
from uncork.core.diagnosis import Finding, Transfer, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.core.stage import Stage
from uncork.rules.evidence import WORTH, bound, ms

# What a map makes of each byte, at least, where it makes floats of whole numbers.
_SEVERAL: Final = 3


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, from the time that sending a batch was seen to take."""
    transfer = diagnosis.transfer
    if transfer is None:
        return
    widening = _widening(diagnosis.stages) if transfer.too_wide else None
    upper = _upper(diagnosis, transfer, widening, machine.cpus)
    if upper < WORTH:
        return
    bytes_ = f"{transfer.bytes / 1e6:,.1f} MB a step, sent to {transfer.device} in "
    yield Finding(
        cause="transfer",
        share=1 - 1 / upper,
        upper_bound=upper,
        at=(widening.at if widening else None) or diagnosis.workload.at,
        evidence=bytes_
        + f"{ms(transfer.wall_s)} of {ms(diagnosis.step_s)}"
        + (f"; as bytes {transfer.needed_bytes / 1e6:,.1f} MB" if transfer.too_wide else ""),
        remedy=(
            "send the bytes, and make floats of them in the model: Rescaling(1 / 255)"
            if transfer.too_wide
            else "where the device can hold the data: put it there once, and gather in the step"
        ),
    )


def _upper(
    diagnosis: WorkloadDiagnosis, transfer: Transfer, widening: Stage | None, cpus: float
) -> float:
    step_s, spared_s = diagnosis.step_s, transfer.needless * transfer.wall_s
    if any(s.kind == "loop" for s in diagnosis.stages):  # nothing else runs meanwhile
        return bound(step_s, step_s - spared_s)
    costs = costs_of(diagnosis, cpus)
    after = costs.with_step_sparing(spared_s, transfer.needless * transfer.cpu_s)
    if widening is not None:  # its work becomes the device's
        after = after.without([widening.index])
    return min(gain(costs, after), bound(step_s, after.step_s()))


def _widening(stages: tuple[Stage, ...]) -> Stage | None:
    """The last map that makes several bytes of each byte."""
    for below, stage in reversed(list(itertools.pairwise(stages))):
        given, made = below.bytes_per_element, stage.bytes_per_element
        if stage.kind == "map" and given and made and made >= _SEVERAL * given:
            return stage
    return None
