"""The short verdict: what was slow, what was done, the speed-up, what it changes, what is next.

Rows of short texts, in this order, for a terminal. Every figure is that of the view records of
``diagnosis_content`` and ``plan_content``, which the HTML page shows, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from uncork.core.base.record import Record
from uncork.core.documents.diagnosis import Finding
from uncork.core.documents.plan import NO_TIME_REASON
from uncork.report.content.diagnosis_content import (
    DiagnosisInfo,
    StepTime,
    Tone,
    WorkloadInfo,
    cost_text,
)
from uncork.report.content.figures import (
    format_duration,
    format_percent,
    format_rate,
    format_ratio_interval,
    format_words,
    shorten_start,
)
from uncork.report.content.plan_content import OptimizationRow, PlanInfo

MAX_FINDINGS: Final = 2
MAX_ACCEPTED: Final = 4
MAX_UNTRIED: Final = 4
MAX_NOTES: Final = 2
_NAMES: Final = 4


class VerdictLine(Record, frozen=True, kw_only=True):
    """One text of a row.

    Attributes:
        text: It is cut where it is longer than its lines.
        max_lines: That it may take.
        tone: None for no emphasis.
    """

    text: str
    max_lines: int = 1
    tone: Tone | None = None


class VerdictRow(Record, frozen=True, kw_only=True):
    """One question of the verdict, with its answer.

    Attributes:
        label: One or two words.
        lines: The answer.
        max_lines: That the whole row may take.
    """

    label: str
    lines: tuple[VerdictLine, ...]
    max_lines: int


def diagnosis_rows(info: DiagnosisInfo) -> list[VerdictRow]:
    """Of the first training that was diagnosed; others are named."""
    rows = [row for each in info.workloads[:1] for row in _workload_rows(each)]
    others = [*(each.at for each in info.workloads[1:]), *info.undiagnosed_at]
    if others:
        text = f"{_names(others)}: diagnose one of them with --training N"
        rows.append(_row("Other calls", [_line(text)], 1))
    return rows


def _workload_rows(info: WorkloadInfo) -> Iterable[VerdictRow]:
    verdict, first = info.verdict, info.findings[:1]
    # Where the cause is no more than the name of a finding, the finding says it.
    is_told = first and first[0].severity != "correctness" and verdict.tone == "bottleneck"
    slow = [
        _line(verdict.sentence, 2, "unknown"),
        *([] if is_told else [_line(verdict.cause, 2, verdict.tone)]),
        *_step(info.step_time),
        *map(_finding, info.findings[:MAX_FINDINGS]),
    ]
    yield _row("Slow", slow, 7)
    done = f"measured {format_rate(info.samples_per_s)}, {info.noise_text}: {info.description}"
    yield _row("Done", [_line(done, 2)], 2)
    yield _row("Speed-up", [_line(_possible(info), 2)], 2)
    changed = "nothing: Uncork stops the script after the measurement"
    yield _row("Changes", [_line(changed)], 1)
    if first or info.healthy_reason:
        text = first[0].remedy if first else f"nothing: {info.healthy_reason}"
        yield _row("To do", [_line(text, 2)], 2)
    yield from _note_row(info.notes)


def _possible(info: WorkloadInfo) -> str:
    """What could be gained at most, with its interval where it has one."""
    costly = [f for f in info.findings if f.severity != "correctness"]
    consumer = next((c.samples_per_s for c in info.ceilings if c.name == "consumer"), None)
    allows = f"the training step alone reaches {format_rate(consumer)}"
    if not costly:
        return f"none to be expected: {allows}"
    first = costly[0]
    if first.upper_bound <= 1:
        return f"{first.cause}: {cost_text(first)}; {allows}"
    gain = format_ratio_interval(first.upper_bound, first.upper_bound_interval)
    return f"possible: up to {gain} without {first.cause}; {allows}"


def plan_rows(info: PlanInfo) -> list[VerdictRow]:
    """All rows of a plan."""
    rows = [
        _row("Slow", _slow(info), 5),
        _row("Done", _done(info), 5),
        _row("Speed-up", _speedup(info), 4),
        _row("Changes", [_line(_changes(info), 2)], 2),
    ]
    if info.missed:
        rows.append(_row("Not tried", list(_missed(info)), MAX_UNTRIED))
    return [*rows, *_note_row(info.notes)]  # last: what does not fit into 25 lines is cut there


def _slow(info: PlanInfo) -> list[VerdictLine]:
    found = info.before.findings
    speed = f"{info.before.at} trained {info.headline.before_text}"
    named = f", held back by {found[0].cause}" if found else ""
    return [
        _line(f"{speed}{named}.", 2),
        *_step(info.step_times[0]),
        *map(_finding, found[:MAX_FINDINGS]),
    ]


def _done(info: PlanInfo) -> list[VerdictLine]:
    accepted, more = info.accepted[:MAX_ACCEPTED], info.accepted[MAX_ACCEPTED:]
    lines = [_line(_accepted(row), tone="healthy") for row in accepted]
    if more:
        lines.append(_line(f"and {len(more)} more: {_names(row.name for row in more)}"))
    if not accepted:
        lines.append(_line(info.verdict.cause, 2, info.verdict.tone))
    rejected = _names(row.name for row in info.not_accepted)
    tried = f"tried and not accepted: {rejected}" if rejected else ""
    skipped = f"{len(info.skipped)} not tried" if info.skipped else ""
    told = "; ".join(filter(None, (tried, skipped)))
    return [*lines, _line(told)] if told else lines


def _accepted(row: OptimizationRow) -> str:
    gain = f" {row.measured} ({row.interval})" if row.measured else ""
    edits = "; ".join(row.edits) or row.reason
    return f"{format_words(row.name)}{gain}: {edits}"


def _speedup(info: PlanInfo) -> list[VerdictLine]:
    tone = info.verdict.tone
    lines = [_line(info.verdict.sentence, 2, tone)]
    if info.accepted and tone != "healthy":
        lines.append(_line(info.verdict.cause, 1, tone))
    if info.accepted:
        lines.append(_line(info.confirmation_text))
    if info.finish_text:
        lines.append(_line(f"the whole training: {info.finish_text}"))
    if info.validation_text:
        lines.append(_line(f"a validation: {info.validation_text}"))
    return lines


def _changes(info: PlanInfo) -> str:
    if not info.accepted:
        return "nothing: the training stays unmodified"
    if info.headline.unproved:
        return f"not proved for {_names(info.headline.unproved)}"
    return f"{info.guarantee}, proved: {info.guarantee_text}"


def _missed(info: PlanInfo) -> Iterable[VerdictLine]:
    for row in info.missed[:MAX_UNTRIED]:
        gain = f" (may reach {row.predicted})" if row.predicted else ""
        reason = "no time left in the budget" if row.reason == NO_TIME_REASON else row.reason
        yield _line(f"{format_words(row.name)}{gain}: {reason}")


def _finding(finding: Finding) -> VerdictLine:
    at = f" at {shorten_start(finding.at)}" if finding.at else ""
    return _line(f"{finding.cause}{at}: {cost_text(finding)}", 2, "bottleneck")


def _step(step: StepTime) -> list[VerdictLine]:
    parts = [f"{part.label} {format_percent(part.share)}" for part in step.parts]
    if not parts:
        return []
    return [_line(f"one step of {format_duration(step.seconds)}: {', '.join(parts)}", 2)]


def _note_row(notes: Sequence[str]) -> Iterable[VerdictRow]:
    if notes:
        yield _row("Note", [_line(note, 3) for note in notes[:MAX_NOTES]], 4)


def _names(names: Iterable[str]) -> str:
    every = [format_words(name) for name in names]
    more = f" and {len(every) - _NAMES} more" if len(every) > _NAMES else ""
    return ", ".join(every[:_NAMES]) + more


def _line(text: str, max_lines: int = 1, tone: Tone | None = None) -> VerdictLine:
    return VerdictLine(text=text, max_lines=max_lines, tone=tone)


def _row(label: str, lines: Sequence[VerdictLine], max_lines: int) -> VerdictRow:
    return VerdictRow(label=label, lines=tuple(lines), max_lines=max_lines)
