"""What takes much of the run and no other rule explains: ``input_bound``, ``compile_time``, ...

One finding for each kind of time, at the line that takes most of it. Its bound is what the run
would gain if the unexplained part of that time were gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from uncork.core.costmodel.run_breakdown import Group, RunBreakdown, RunPart, break_down_run
from uncork.core.documents.diagnosis import MIN_PART_SHARE, Cause, Finding, WorkloadDiagnosis
from uncork.core.evidence.stage import Stage
from uncork.rules.base.claims import unclaimed_shares
from uncork.rules.base.thresholds import (
    format_seconds,
    speedup_bound,
    speedup_interval,
    stage_label,
)

CAUSES: Final[dict[Group, Cause]] = {
    "setup": "slow_start",
    "compile": "compile_time",
    "input": "input_bound",
    "host": "host_bound",
    "callbacks": "callbacks",
    "validation": "validation_time",
    "saving": "saving_time",
}
_WHAT: Final[dict[Group, str]] = {
    "setup": "set-up before the training",
    "compile": "tracing and compiling",
    "input": "waiting for input",
    "host": "Python and the runtime between the steps",
    "callbacks": "callbacks",
    "validation": "validation",
    "saving": "saving",
}
_REMEDIES: Final[dict[Group, str]] = {
    "setup": "save what these lines compute in a file, and load it",
    "compile": "use fewer shapes: pad batches to a few lengths; leave out jit_compile=True in a "
    "short training",
    "input": "make this stage cheaper, run it in parallel or cache its result: see uncork tune",
    "host": "do more in one call: steps_per_execution=N, larger batches, fewer values read per "
    "step",
    "callbacks": "run them less often: once an epoch, or in every tenth epoch",
    "validation": "validation_freq=N, or fewer validation steps",
    "saving": "save less often, or only the weights",
}

_BETWEEN_FITS: Final = "call fit once, with all epochs"


def find(diagnosis: WorkloadDiagnosis, findings: Sequence[Finding]) -> Iterator[Finding]:
    """One finding for each kind of time that is more than 15 % of the run and not claimed.

    Args:
        diagnosis: Of the training.
        findings: Of all other rules.
    """
    run = break_down_run(diagnosis)
    for group, share in unclaimed_shares(findings, run).items():
        if group in CAUSES and share > MIN_PART_SHARE:
            yield _finding(diagnosis, run, group, share)


def _finding(
    diagnosis: WorkloadDiagnosis, run: RunBreakdown, group: Group, share: float
) -> Finding:
    largest = max((p for p in run.parts if p.group == group), key=lambda part: part.seconds)
    whole = run.group_s(group) / run.seconds
    upper = speedup_bound(1.0, 1.0 - share)
    claimed = f", {whole - share:.0%} of it named above" if whole - share > 0.01 else ""
    return Finding(
        cause=CAUSES[group],
        share=share,
        upper_bound=upper,
        upper_bound_interval=speedup_interval(diagnosis, group, upper),
        at=largest.at or diagnosis.workload.at,
        evidence=(
            f"{whole:.0%} of {run.scope} goes to {_WHAT[group]}{claimed}: "
            f"{_details(diagnosis, run, largest)}"
        ),
        remedy=_BETWEEN_FITS if largest.name == "between fits" else _REMEDIES[group],
        share_of=run.scope,
    )


def _details(diagnosis: WorkloadDiagnosis, run: RunBreakdown, part: RunPart) -> str:
    """Of the largest row of a group."""
    seconds = f"{format_seconds(part.seconds)} of {format_seconds(run.seconds)}"
    if part.group == "input":
        return f"{seconds}{_slowest(diagnosis)}"
    if part.name == "new shapes":
        programs = f" of {part.count:,} programs for {part.count:,} shapes" if part.count else ""
        return f"{seconds} for compiling{programs}"
    counted = f", {part.count:,} times" if part.count > 1 else ""
    return f"{seconds}{f' for {part.name}' if part.name else ''}{counted}"


def _slowest(diagnosis: WorkloadDiagnosis) -> str:
    stages = [stage for stage in diagnosis.stages if stage.cpu_s_per_step]
    if not stages:
        return ", and no stage of it could be timed"
    stage: Stage = max(stages, key=lambda each: each.cpu_s_per_step or 0.0)
    return (
        f"; the slowest stage is {stage_label(stage)}, which computes "
        f"{format_seconds(stage.cpu_s_per_step or 0.0)} for a step"
    )
