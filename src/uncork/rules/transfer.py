"""A step that waits for its batch to be sent to its device: ``transfer``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from uncork.core.attribution import costs_of
from uncork.core.costmodel import gain
from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.facts import Transfer
from uncork.core.machine import Machine
from uncork.core.stage import Stage
from uncork.rules.evidence import WORTH, bound, ms

# Bytes that a map makes of each one where it makes floats of them; labels may come along.
_FLOATS: Final = (3.5, 8.5)
_BYTES: Final = "send whole numbers of a byte, and make floats of them in the model (Rescaling)"
# No word of tf.data.experimental.prefetch_to_device: on an H200, Keras's fit was slower with it,
# for batches of 77 MB (0.95x) as well as of 19 MB (0.89x).
_ONCE: Final = "where the device can hold the data: put it there once, and gather in the step"


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding, from the time that sending a batch was seen to take."""
    transfer = diagnosis.transfer
    if transfer is None:
        return
    widening = _widening(diagnosis.stages) if transfer.too_wide else None
    upper = _upper(diagnosis, transfer, widening, machine.cpus)
    if upper < WORTH:
        return
    as_bytes = f"; as bytes {transfer.needed_bytes / 1e6:,.1f} MB" if transfer.too_wide else ""
    yield Finding(
        cause="transfer",
        share=1 - 1 / upper,
        upper_bound=upper,
        at=(widening.at if widening else None) or diagnosis.workload.at,
        evidence=(
            f"{transfer.bytes / 1e6:,.1f} MB a step, sent to {transfer.device} in "
            f"{ms(transfer.wall_s)} of {ms(diagnosis.step_s)}{as_bytes}"
        ),
        remedy=_BYTES if transfer.too_wide else _ONCE,
    )


def _upper(
    diagnosis: WorkloadDiagnosis, transfer: Transfer, widening: Stage | None, cpus: float
) -> float:
    """The gain of sending less, and of making no floats here: the device has them made at once."""
    step_s, spared_s = diagnosis.step_s, transfer.needless * transfer.wall_s
    if _is_loop(diagnosis):  # nothing else runs meanwhile
        return bound(step_s, step_s - spared_s)
    costs = costs_of(diagnosis, cpus)
    after = costs.with_step_sparing(spared_s, transfer.needless * transfer.cpu_s)
    if widening is not None:
        after = after.without([widening.index])
    return min(gain(costs, after), bound(step_s, after.step_s()))


def _is_loop(diagnosis: WorkloadDiagnosis) -> bool:
    return any(stage.kind == "loop" for stage in diagnosis.stages)


def _widening(stages: tuple[Stage, ...]) -> Stage | None:
    """The last map that makes a float of each byte: its output is four or eight times its input."""
    for below, stage in reversed(list(itertools.pairwise(stages))):
        given, made = below.bytes_per_element, stage.bytes_per_element
        if stage.kind == "map" and given and made and _FLOATS[0] <= made / given <= _FLOATS[1]:
            return stage
    return None
