"""What the user's own loop does beside its step, named by what that is: four causes.

They are ``callbacks``, ``metrics_every_step``, ``validation_setup`` and ``growing_state``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Cause, Finding, WorkloadDiagnosis
from uncork.core.evidence.loop import LoopLine, LoopWork
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms, speedup_bound

_CAUSES: Final[dict[LoopWork, Cause]] = {
    "metrics": "metrics_every_step",
    "evaluation": "validation_setup",
    "function": "callbacks",
}
_REMEDIES: Final[dict[Cause, str]] = {
    "metrics_every_step": "update metrics inside the compiled step, and read them once an epoch",
    "validation_setup": "validate with your own tf.function, on data that stays in memory",
    "callbacks": (
        "if it only reports, do it once an epoch, or every few hundred batches; if it is part of "
        "the training, move it into the compiled step"
    ),
    "growing_state": "append to a list, and concatenate its elements after the training",
}


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding for each cause."""
    del machine
    for cause in _REMEDIES:
        lines = [each for each in diagnosis.loop_lines if _cause_of(each) == cause]
        share = diagnosis.resident_share * sum(each.share for each in lines)
        upper = speedup_bound(1.0, 1.0 - share)
        if lines:
            yield from _finding(diagnosis, cause, lines, upper)


def _finding(
    diagnosis: WorkloadDiagnosis, cause: Cause, lines: list[LoopLine], upper: float
) -> Iterator[Finding]:
    longest = lines[0]
    where = " and ".join(f"line {each.at.rpartition(':')[2]}" for each in lines[:2])
    evidence = (
        f"{format_ms((1 - 1 / upper) * diagnosis.step_s)} of a {format_ms(diagnosis.step_s)} step "
        f"go to {where} of the loop, outside the training step"
    )
    return step_finding(
        diagnosis, cause, upper, longest.function_at or longest.at, evidence, _REMEDIES[cause]
    )


def _cause_of(line: LoopLine) -> Cause | None:
    """What to call it when a line takes long; None for the step itself."""
    return "growing_state" if line.is_accumulating else _CAUSES.get(line.work)
