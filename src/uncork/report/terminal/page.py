"""A diagnosis or a plan as a page of terminal text: with ``-v``, in place of the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from uncork.core.documents.diagnosis import Diagnosis, Finding
from uncork.core.documents.plan import Plan
from uncork.report.content.diagnosis_content import (
    DiagnosisInfo,
    StepTime,
    VerdictText,
    WorkloadInfo,
    cost_text,
    diagnosis_info,
)
from uncork.report.content.figures import (
    escape_control_characters,
    format_count,
    format_duration,
    format_percent,
    format_rate,
    format_words,
)
from uncork.report.content.plan_content import ChartPoint, PlanInfo, plan_info
from uncork.report.content.run_time import RunPart
from uncork.report.content.stage_rows import MAX_OPS
from uncork.report.terminal.tables import kernel_table, most_expensive_rows, stage_table
from uncork.report.terminal.text import (
    MIN_FULL_WIDTH,
    TONES,
    align_right,
    borderless_table,
    next_line,
    one_line,
    render_text,
    style_with_min_width,
    titled_block,
    truncate_start,
)

MAX_STAGES: Final = 6
MAX_FINDINGS: Final = 3
MAX_KERNELS: Final = 3
# Where the step is most of the time, its kernels are told instead.
MAX_STAGES_WITH_KERNELS: Final = 2
MAX_TRIED: Final = 10
MAX_SKIPPED: Final = 4
MAX_NOTES: Final = 2

_BAR_WIDTH: Final = 60

_PART_STYLES: Final = {
    "input": "red",
    "host": "yellow",
    "step": "green",
    "compile": "magenta",
    "unknown": "bright_black",
}
_POINT_STYLES: Final = {"accepted": "green", "rejected": "yellow", "failed": "red"}

# Each category has a shape of its own: colour alone tells nothing to some readers and most logs.
_BLOCKS: Final = {"input": "█", "host": "▓", "step": "▒", "compile": "▚", "unknown": "░"}


def diagnosis_text(
    diagnosis: Diagnosis,
    width: int = 100,
    color: bool = False,
    unicode: bool = False,
) -> str:
    """The diagnosis as text that ends with the next command to type."""
    style = style_with_min_width(width, color, unicode)
    info = diagnosis_info(diagnosis)
    blocks = [block for each in info.workloads for block in _workload(each, style.width)]
    return render_text([*blocks, _footer(info)], style, next_line(info.next_command))


def plan_text(
    plan: Plan,
    width: int = 100,
    color: bool = False,
    unicode: bool = False,
    path: str = "plan.json",
) -> str:
    """The plan as text that ends with the next command to type.

    Args:
        plan: The plan.
        width: In characters.
        color: The reader shows colours.
        unicode: The reader shows more than ASCII.
        path: Where the plan lies.
    """
    style = style_with_min_width(width, color, unicode)
    info = plan_info(plan, path)
    blocks: list[RenderableType] = [_verdict(info.verdict)]
    if info.accepted or info.not_accepted:
        blocks.append(_optimizations(info, style.width))
    blocks.append(titled_block("One step", _step_times(info.step_times, style.width)))
    if info.skipped:
        blocks.append(_skipped(info, style.width))
    if info.notes:
        blocks.append(_notes(info.notes, style.width))
    return render_text([*blocks, _plan_footer(info)], style, next_line(info.next_command))


def bar_cells(shares: Sequence[float], length: int) -> list[int]:
    """Characters for each share: their sum is ``length``, and nothing present is invisible.

    Example:
        >>> bar_cells([0.745, 0.25, 0.005], 20)
        [14, 5, 1]
    """
    total = sum(shares)
    if total <= 0 or length < len(shares):
        return [0] * len(shares)
    cells = [max(round(share / total * length), 1) for share in shares]
    cells[cells.index(max(cells))] += length - sum(cells)
    return cells


def _workload(info: WorkloadInfo, width: int) -> list[RenderableType]:
    blocks: list[RenderableType] = [_verdict(info.verdict), _speeds(info)]
    blocks.append(titled_block("One step", _step_times((info.step_time,), width)))
    if info.run_parts:
        blocks.append(titled_block(info.run_title, _run(info.run_parts, width)))
    if info.stages:
        most, ops = (MAX_STAGES_WITH_KERNELS, 1) if info.kernels else (MAX_STAGES, MAX_OPS)
        shown = stage_table(most_expensive_rows(info.stages, most), width, max_ops=ops)
        blocks.append(titled_block("Input pipeline", shown, most, len(info.stages)))
    if info.kernels:
        shown = kernel_table(info.kernels[:MAX_KERNELS], width)
        blocks.append(titled_block("Training step", shown, MAX_KERNELS, len(info.kernels)))
    if info.findings:
        blocks.append(_findings(info.findings, width))
    elif info.healthy_reason:
        blocks.append(
            titled_block("Findings", Text(one_line(info.healthy_reason, 2 * (width - 6))))
        )
    if info.notes:
        blocks.append(_notes(info.notes, width))
    return blocks


def _notes(notes: Sequence[str], width: int) -> RenderableType:
    lines = [one_line(f"Note: {note}", 2 * (width - 6)) for note in notes[:MAX_NOTES]]
    more = len(notes) - MAX_NOTES
    if more > 0:
        lines.append(f"({more} more note{'s' if more > 1 else ''} in the HTML report)")
    return Text("\n".join(lines), style="dim")


def _verdict(verdict: VerdictText) -> RenderableType:
    text = Text(escape_control_characters(verdict.sentence), style="bold")
    return text.append("\n").append(
        escape_control_characters(verdict.cause), style=TONES[verdict.tone]
    )


def _speeds(info: WorkloadInfo) -> RenderableType:
    text = Text().append(escape_control_characters(info.description), style="dim")
    text.append(f"\nmeasured {format_rate(info.samples_per_s)}, {info.noise_text}")
    alone = (
        f"{escape_control_characters(each.label)} {format_rate(each.samples_per_s)}"
        for each in info.ceilings
    )
    return text.append("\nceilings: " + ", ".join(alone) if info.ceilings else "")


def _step_times(steps: Sequence[StepTime], width: int) -> RenderableType:
    """Bars on one scale: a step twice as fast is drawn half as long."""
    longest = max((step.seconds or 0.0 for step in steps), default=0.0)
    cells = min(width - 4, _BAR_WIDTH)
    rows: list[RenderableType] = []
    for step in steps:
        length = round(cells * (step.seconds or 0.0) / longest) if longest else 0
        head = Text(f"{step.title}: " if len(steps) > 1 else "").append(
            format_duration(step.seconds)
        )
        rows += [head.append(f" ({step.interval})", style="dim"), _bar(step, length)]
        rows += _legend(step, width - 2)
    return Group(*rows)


def _run(parts: Sequence[RunPart], width: int) -> RenderableType:
    grid = borderless_table("", "takes", "share", "")
    for part in parts:
        figures = (format_duration(part.seconds), format_percent(part.share))
        grid.add_row(
            one_line(part.label, width - 46),
            *map(align_right, figures),
            truncate_start(part.at or "", 24),
        )
    return grid


def _bar(step: StepTime, length: int) -> Text:
    bar = Text(no_wrap=True)
    cells = bar_cells([part.share for part in step.parts], length)
    for part, wide in zip(step.parts, cells, strict=True):
        bar.append(_BLOCKS[part.key] * wide, style=_PART_STYLES[part.key])
    return bar


def _legend(step: StepTime, width: int) -> list[Text]:
    """As few lines as hold all entries; an entry is never torn apart."""
    lines = [Text()]
    for part in step.parts:
        entry = Text().append(_BLOCKS[part.key], style=_PART_STYLES[part.key])
        entry.append(
            f" {escape_control_characters(part.label)} {format_duration(part.seconds)}, "
            f"{format_percent(part.share)}"
        )
        if len(lines[-1]) and len(lines[-1]) + len(entry) + 3 > width:
            lines.append(Text())
        lines[-1].append("   " if len(lines[-1]) else "").append_text(entry)
    return lines


def _findings(findings: Sequence[Finding], width: int) -> RenderableType:
    rows: list[RenderableType] = []
    for number, finding in enumerate(findings[:MAX_FINDINGS]):
        head = Text(finding.cause, style="bold red" if finding.severity != "speed" else "bold")
        head.append(f"  {cost_text(finding)}", style="not bold")
        head.append(f"  {truncate_start(finding.at, 40)}" if finding.at else "", style="cyan")
        lines = 1 if number else 2  # what is first is read to its end
        body = Text(one_line(finding.evidence, (width - 6) * lines))
        body.append(f"\n→ {one_line(finding.remedy, (width - 8) * lines)}", style="green")
        rows += [head, Padding(body, (0, 0, 0, 2))]
    return titled_block("Findings", Group(*rows), MAX_FINDINGS, len(findings))


def _optimizations(info: PlanInfo, width: int) -> RenderableType:
    full = width >= MIN_FULL_WIDTH
    grid = borderless_table(
        "", "samples/s", "gain", *(["expected"] if full else []), "guarantee", ""
    )
    baseline, *rest = (point for point in info.chart.points if point.kind != "confirmed")
    grid.add_row("  baseline", align_right(format_count(baseline.samples_per_s)))
    for point in _shown(rest):
        grid.add_row(*_optimization_row(point, full, width), style=_POINT_STYLES[point.kind])
    last = Text(info.confirmation_text, style="bold")
    return titled_block("Optimizations", Group(grid, last), len(_shown(rest)), len(rest))


def _shown(points: Sequence[ChartPoint]) -> list[ChartPoint]:
    """All accepted optimizations, and as many of the others as fit, in their order."""
    room = MAX_TRIED - sum(point.kind == "accepted" for point in points)
    shown: list[ChartPoint] = []
    for point in points:
        if point.kind == "accepted" or room > 0:
            shown.append(point)
            room -= point.kind != "accepted"
    return shown


def _optimization_row(point: ChartPoint, full: bool, width: int) -> list[RenderableType]:
    accepted = point.kind == "accepted"
    figures = [format_count(point.samples_per_s) if accepted else "", point.gain, point.predicted]
    return [
        f"{'✓' if accepted else '✗'} {one_line(point.label, 20)}",
        *map(align_right, figures if full else figures[:2]),
        point.guarantee or "",
        one_line((point.proof if accepted else "") or point.reason, width - (68 if full else 58)),
    ]


def _skipped(info: PlanInfo, width: int) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    for row in info.skipped[:MAX_SKIPPED]:
        grid.add_row(
            one_line(format_words(row.name), 20), one_line(row.reason, width - 26), style="dim"
        )
    return titled_block("Not tried", grid, MAX_SKIPPED, len(info.skipped))


def _plan_footer(info: PlanInfo) -> RenderableType:
    lines = [f"The whole training: {info.finish_text}."] if info.finish_text else []
    if info.validation_text:
        lines.append(f"A validation: {info.validation_text}.")
    return Text("\n".join((*lines, info.cost_text, _machine(info.machine))), style="dim")


def _footer(info: DiagnosisInfo) -> RenderableType:
    lines = [_machine(info.machine), info.overhead]
    if info.undiagnosed_at:
        lines.append(
            "Also reached, not diagnosed: "
            f"{', '.join(escape_control_characters(at) for at in info.undiagnosed_at[:4])}."
        )
    return Text("\n".join(lines), style="dim")


def _machine(rows: Sequence[tuple[str, str]]) -> str:
    facts = {label: escape_control_characters(value) for label, value in rows}
    return (
        f"Measured on {facts['Processor']}, {facts['Cores']} cores, {facts['Memory']},"
        f" accelerators: {facts['Accelerators']}; TensorFlow {facts['TensorFlow']}."
    )
