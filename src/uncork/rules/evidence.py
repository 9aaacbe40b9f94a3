"""What all rules share: when a brake is worth naming, and how its cost is told."""

from __future__ import annotations

from typing import Final

from uncork.core.diagnosis import WorkloadDiagnosis
from uncork.core.stage import Stage

# Ratio. Below 1.1 a finding would be within what two runs of the same script differ by on a shared
# machine, and nobody changes a pipeline for it.
WORTH: Final = 1.10


def bound(step_s: float, without_s: float) -> float:
    """How many times faster a step could be if it took ``without_s``, at least 1.

    Example:
        >>> bound(0.04, 0.01)
        4.0
    """
    return max(1.0, step_s / without_s) if without_s > 0 else 1.0


def input_share(diagnosis: WorkloadDiagnosis) -> float:
    """Part of the step lost to input."""
    return diagnosis.breakdown.get("input", 0.0)


def ms(seconds: float | None) -> str:
    """Milliseconds for people.

    Example:
        >>> ms(0.01234)
        '12.3 ms'
    """
    if seconds is None:
        return "unknown"
    return f"{seconds * 1e3:.3g} ms"


def place(stage: Stage) -> str:
    """How a stage is called in a sentence: ``map(load)``."""
    return f"{stage.kind}({stage.name})" if stage.name else stage.kind
