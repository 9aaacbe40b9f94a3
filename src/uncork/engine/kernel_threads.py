"""Try fewer threads within a kernel, in a process of its own, once the road has been walked."""

from __future__ import annotations

from typing import Final

from uncork.core.plan import Plan, Step
from uncork.core.record import replace
from uncork.core.step_edit import DtypePolicy, JitCompile, LargerBatch
from uncork.engine.elsewhere import Elsewhere
from uncork.engine.processes import Script
from uncork.road.intra_op_threads import KernelsOnOneThread


def _in_force(plan: Plan, step: Step) -> Plan:
    """Beside all that is in force."""
    return replace(plan, steps=(*plan.steps, step))


def _why_not(plan: Plan, script: Script) -> str:
    del script
    if any(isinstance(edit, JitCompile) for edit in plan.step_edits):
        return "XLA has joined the small kernels"
    if any(isinstance(edit, DtypePolicy | LargerBatch) for edit in plan.step_edits):
        return "the plan trains otherwise than the script as written, which it is compared with"
    return ""


THREADS: Final = Elsewhere(KernelsOnOneThread(), "threads", _in_force, _why_not)
