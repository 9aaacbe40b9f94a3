"""Try an allocator that gives no memory back, in a process of its own, behind the road."""

from __future__ import annotations

from typing import Final

from uncork.core.plan import Plan
from uncork.engine.elsewhere import Elsewhere, beside_all
from uncork.engine.processes import Script
from uncork.road.keep_freed_memory import KeepMemory


def _why_not(plan: Plan, script: Script) -> str:
    """It goes with everything."""
    del plan, script
    return ""


MEMORY: Final = Elsewhere(KeepMemory(), "process", beside_all, _why_not)
