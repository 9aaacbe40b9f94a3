"""Data in very many small files: ``storage_bound``.

Opening a file costs more than reading a few kilobytes of it does, on any storage. A cache in files
that is read again in every epoch has the same name, and is found where caches are.
"""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.attribution import costs_of
from uncork.core.costmodel import gain
from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.rules.evidence import WORTH, bound, input_share, interval, ms, place


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each map that opens many files for each element, and spends its time so."""
    if input_share(diagnosis) <= 1 - 1 / WORTH:
        return
    costs = costs_of(diagnosis, machine.cpus)
    for stage in diagnosis.stages:
        reading, cost_s = stage.reading, stage.cpu_s_per_element
        if reading is None or not cost_s or not stage.elements_per_step:
            continue
        # What is left: one file in place of all.
        spared = reading.cpu_s_per_element * (1 - 1 / reading.files)
        together = costs.spared([stage.index], 1 - spared / cost_s)
        upper = bound(diagnosis.step_s, together.step_s())
        if min(gain(costs, together), upper) < WORTH:
            continue
        read_s = reading.cpu_s_per_element * stage.elements_per_step
        yield Finding(
            cause="storage_bound",
            share=min(input_share(diagnosis), 1 - 1 / upper),
            upper_bound=upper,
            interval=interval(diagnosis, "input", upper),
            at=stage.at,
            evidence=(
                f"{place(stage)} opens {reading.files:,} files for each element: {ms(read_s)} of "
                f"{ms(stage.cpu_s_per_step)} of CPU a step pass until they are read"
            ),
            remedy="pack what belongs together into TFRecord files, some 100 MB each",
        )
