"""Keep what the process frees, and hand it out again: no page of memory is filled with zeros twice.

TensorFlow asks the C library for the memory of each tensor, and gives it back behind the last op
that reads it. glibc hands large pieces on to the operating system, which makes new ones for the
next step, page by page. Legal as ``exact``: where a kernel writes to is no part of what it writes,
or ``rounding`` where a training does not come out the same to the last bit each time. An allocator
is set before anything is asked of it, so it is tried in a process of its own.
"""

from __future__ import annotations

from typing import final

from uncork.core.base.machine import DEFAULT_ALLOCATOR
from uncork.core.edits.edit import KeepFreedMemory
from uncork.optimizations.base.preconditions import loop_process_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    first_holding,
)

_SOURCE = """\
libc = ctypes.CDLL(None)  # first of all
libc.mallopt(-8, 1)  # M_ARENA_MAX
libc.mallopt(-4, 0)  # M_MMAP_MAX
libc.mallopt(-1, -1)  # M_TRIM_THRESHOLD"""


def _refusal(context: Context) -> str:
    allocator = context.machine.allocator
    reasons = {
        f"the allocator is {allocator or 'one that is not known'}, and not glibc's as it comes": (
            allocator != DEFAULT_ALLOCATOR
        ),
        "fit is called for a few steps at a time": context.workload.is_fit_in_loop,
    }
    return first_holding(reasons)


@final
class KeepFreedMemoryOptimization(Optimization):
    """Start the script with an allocator that gives nothing back."""

    name = "keep_freed_memory"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    needs_own_process = True
    preconditions = (_refusal, loop_process_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Where memory that was freed is given anew in every step."""
        faulting_s = context.diagnosis.measurement.page_fault_s_per_step
        return Proposal(
            edits=(KeepFreedMemory(),),
            predicted=context.diagnosis.speedup_without_page_faults(),
            at=context.workload.at,
            rationale=(
                f"{faulting_s * 1e3:.3g} ms of CPU a step pass while the system makes memory anew "
                "that was freed just before"
            ),
            source_edit=_SOURCE,
        )
