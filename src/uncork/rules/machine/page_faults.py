"""Memory that is given back and asked for again in every step: ``page_faults``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import DEFAULT_ALLOCATOR, Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms

# Ratio. It is no mistake of the script's, and Uncork tries it for smaller gains.
_WORTH: Final = 1.3


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding.

    The script does nothing wrong, so it stands only where there is nothing else to gain.
    """
    if machine.allocator != DEFAULT_ALLOCATOR:
        return
    upper = diagnosis.speedup_without_page_faults()
    if upper < _WORTH:
        return
    measured = diagnosis.measurement
    evidence = (
        f"{format_ms(measured.page_fault_s_per_step)} of {format_ms(measured.cpu_s_per_step)} of "
        "CPU a step go to page faults: glibc's allocator returns large freed blocks to the system, "
        "and requests them again"
    )
    remedy = (
        "keep freed memory: MALLOC_ARENA_MAX=1 MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1 in the "
        "environment of the script, or mallopt at its top"
    )
    yield from step_finding(
        diagnosis, "page_faults", upper, diagnosis.workload.at, evidence, remedy
    )
