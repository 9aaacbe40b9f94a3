"""Keep freed memory in the process, so that no page is filled with zeros twice.

TensorFlow allocates the memory of each tensor with the C library, and frees it after the last op
that reads it. glibc returns large blocks to the operating system, which creates new ones for the
next step, page by page. Legal as ``exact``: the address of a result does not change its value;
``rounding`` where a training is not reproducible to the last bit. An allocator is configured before
its first use, so Uncork tries this in a process of its own.
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
        f"the allocator is {allocator or 'unknown'}, not glibc with its defaults": (
            allocator != DEFAULT_ALLOCATOR
        ),
        "each call of fit runs a few steps only": context.workload.is_fit_in_loop,
    }
    return first_holding(reasons)


@final
class KeepFreedMemoryOptimization(Optimization):
    """Start the script with an allocator that returns no memory."""

    name = "keep_freed_memory"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    needs_own_process = True
    preconditions = (_refusal, loop_process_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it where every step allocates freed memory again."""
        faulting_s = context.diagnosis.measurement.page_fault_s_per_step
        return Proposal(
            edits=(KeepFreedMemory(),),
            predicted=context.diagnosis.speedup_without_page_faults(),
            at=context.workload.at,
            rationale=(
                f"the system spends {faulting_s * 1e3:.3g} ms of CPU a step on memory that was "
                "freed just before"
            ),
            source_edit=_SOURCE,
        )
