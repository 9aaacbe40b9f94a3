"""Keep what the process frees, and hand it out again: no page of memory is filled with zeros twice.

TensorFlow asks the C library for the memory of each tensor, and gives it back behind the last op
that reads it. glibc hands large pieces on to the operating system, which makes new ones for the
next step, page by page. Legal as ``exact``: where a kernel writes to is no part of what it writes,
or ``rounding`` where a training does not come out the same to the last bit each time. An allocator
is set before anything is asked of it, so it is tried in a process of its own.
"""

from __future__ import annotations

from typing import final

from uncork.core.base.machine import DEFAULT_ALLOCATOR, Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.documents.workload import Workload
from uncork.core.edits.edit import KeepFreedMemory
from uncork.optimizations.base.preconditions import loop_process_refusal
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)

_SOURCE = """\
libc = ctypes.CDLL(None)  # first of all
libc.mallopt(-8, 1)  # M_ARENA_MAX
libc.mallopt(-4, 0)  # M_MMAP_MAX
libc.mallopt(-1, -1)  # M_TRIM_THRESHOLD"""


@final
class KeepFreedMemoryOptimization(Optimization):
    """Start the script with an allocator that gives nothing back."""

    name = "keep_freed_memory"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    needs_own_process = True

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Where memory that was freed is given anew in every step."""
        work = diagnosis.workload
        forbidden = _forbidden(work, machine) or loop_process_refusal(work)
        if forbidden:
            return forbidden
        possible = diagnosis.speedup_without_page_faults()
        if possible < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(possible)
        faulting_s = diagnosis.measurement.page_fault_s_per_step
        return Proposal(
            edits=(KeepFreedMemory(),),
            predicted=possible,
            at=work.at,
            rationale=(
                f"{faulting_s * 1e3:.3g} ms of CPU a step pass while the system makes memory anew "
                "that was freed just before"
            ),
            source_edit=_SOURCE,
        )


def _forbidden(work: Workload, machine: Machine) -> Skipped | None:
    whose = machine.allocator or "one that is not known"
    reasons = {
        f"the allocator is {whose}, and not glibc's as it comes": (
            machine.allocator != DEFAULT_ALLOCATOR
        ),
        "fit is called for a few steps at a time": work.is_fit_in_loop,
    }
    return next((Skipped(reason=reason) for reason, holds in reasons.items() if holds), None)
