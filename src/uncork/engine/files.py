"""Reading what earlier runs wrote."""

from __future__ import annotations

from pathlib import Path

from uncork.core.errors import PlanRefused
from uncork.core.plan import Plan, load


def load_plan(path: Path) -> Plan:
    """Read a plan from disk.

    Raises:
        PlanRefused: It is not there, or not a plan, or not as it was proved.
    """
    try:
        return load(path.read_bytes(), str(path))
    except OSError as error:
        raise PlanRefused(
            f"cannot read the plan {path}: {error.strerror}",
            "a plan.json made by 'uncork tune'",
            "uncork tune SCRIPT",
        ) from error
