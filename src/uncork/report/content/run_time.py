"""Where the time of a whole run goes, row by row: the breakdown of the cost model, with labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.record import Record
from uncork.core.costmodel import run_breakdown
from uncork.core.costmodel.run_breakdown import RunBreakdown, break_down_run, step_count
from uncork.core.documents.diagnosis import MIN_PART_SHARE, WorkloadDiagnosis
from uncork.report.content.figures import format_percent

# Of the run, what is not its steps, to be shown at all: these are told by themselves.
_WORTH_SHOWING: Final = 0.05
# Of the run, for a part to have a row.
_WORTH_A_ROW: Final = 0.005
_TITLES: Final = {"the whole run": "The whole run", "an epoch": "One epoch", "a step": "One step"}
_LABELS: Final = {
    ("setup", ""): "before the training",
    ("setup", "imports"): "imports",
    ("setup", "other lines"): "before the training, other lines",
    ("compile", "first step"): "tracing, the first step",
    ("compile", "again"): "tracing again",
    ("compile", "new shapes"): "compiling for new shapes",
    ("compile", "a new function each epoch"): "tracing a new function each epoch",
    ("input", ""): "waiting for input",
    ("input", "start"): "starting the input",
    ("input", "between epochs"): "between epochs",
    ("host", ""): "Python between steps",
    ("host", "outside the step"): "the loop outside its step",
    ("host", "between fits"): "between calls of fit",
    ("unexplained", "within noise"): "unexplained, within noise",
    ("unexplained", "not measured"): "unexplained, not measured",
    ("unexplained", "waiting, not for input"): "unexplained, waiting but not for input",
}


class RunPart(Record, frozen=True, kw_only=True):
    """One part of the whole run.

    Attributes:
        label: What it is.
        seconds: Of it, counted from what was measured of one.
        share: Of the whole run, 0 to 1.
        at: ``file.py:line`` where it is asked for; None where no line is known.
    """

    label: str
    seconds: float
    share: float
    at: str | None = None


def run_title(diagnosis: WorkloadDiagnosis) -> str:
    """What :func:`run_parts` is of: an epoch where nobody knows how many there are."""
    return _TITLES[break_down_run(diagnosis).scope]


def run_parts(diagnosis: WorkloadDiagnosis) -> tuple[RunPart, ...]:
    """In the order in which they come; none where the steps, which are told apart, are nearly all.

    What the script does behind its training is not among them. Their shares add up to 1.

    Args:
        diagnosis: Of a training.
    """
    run = break_down_run(diagnosis)
    beside_s = run.seconds - step_count(diagnosis, run.scope) * diagnosis.step_s
    if run.scope == "a step" or beside_s < _WORTH_SHOWING * run.seconds:
        return ()
    rows = _merged(run)
    shown = [row for row in rows if row.share >= _WORTH_A_ROW]
    return (*shown, *_rest(run, sum(row.seconds for row in shown)))


def _merged(run: RunBreakdown) -> list[RunPart]:
    """One row for each label, at the line of its longest part."""
    by_label: dict[str, list[run_breakdown.RunPart]] = {}
    for part in run.parts:
        by_label.setdefault(_label(part), []).append(part)
    return [
        RunPart(
            label=label,
            seconds=sum(part.seconds for part in parts),
            share=sum(run.share(part) for part in parts),
            at=max(parts, key=lambda part: part.seconds).at,
        )
        for label, parts in by_label.items()
    ]


def no_cause_text(diagnosis: WorkloadDiagnosis) -> str:
    """What a verdict says where no part of the run is worth a finding, and the ceiling is far."""
    run = break_down_run(diagnosis)
    if run.unexplained_share > MIN_PART_SHARE:
        return f"{format_percent(run.unexplained_share)} of {run.scope} is unexplained."
    lost = format_percent(1 - 1 / run.headroom)
    return f"No single cause: {lost} of {run.scope} is lost in several small parts."


def _rest(run: RunBreakdown, shown_s: float) -> Iterator[RunPart]:
    """All parts that are too short for a row."""
    rest_s = run.seconds - shown_s
    if rest_s > 1e-9 * run.seconds:
        yield RunPart(label="everything else", seconds=rest_s, share=rest_s / run.seconds)


def _label(part: run_breakdown.RunPart) -> str:
    """In words; with how often it comes, where that says something."""
    if part.group == "step":
        steps = f"{part.count:,} steps"
        return f"{steps}, {part.name}" if part.name else steps
    if part.group == "validation":
        return f"{part.count:,} validations" if part.count else "validation"
    if part.group == "saving":
        name = part.name.removeprefix("at most ")
        at_most = "at most " * (name != part.name)
        return f"{at_most}{part.count:,} saves by {name}" if part.count else f"saves by {name}"
    label = _LABELS.get((part.group, part.name), part.name)
    counted = part.count > 1 and part.group in ("compile", "input")
    return f"{label}, {part.count:,} times" if counted else label
