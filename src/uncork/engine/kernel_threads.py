"""Try fewer threads within a kernel, in a process of its own, once the road has been walked."""

from __future__ import annotations

from typing import Final

from uncork.core.plan import Plan
from uncork.core.step_edit import DtypePolicy, JitCompile, LargerBatch
from uncork.engine.elsewhere import Elsewhere, beside_all
from uncork.engine.processes import Script
from uncork.road.intra_op_threads import KernelsOnOneThread


def _why_not(plan: Plan, script: Script) -> str:
    del script
    if any(isinstance(edit, JitCompile) for edit in plan.step_edits):
        return "XLA has joined the small kernels"
    if any(isinstance(edit, DtypePolicy | LargerBatch) for edit in plan.step_edits):
        return "the plan trains otherwise than the script as written, which it is compared with"
    return ""


THREADS: Final = Elsewhere(KernelsOnOneThread(), "process", beside_all, _why_not)
