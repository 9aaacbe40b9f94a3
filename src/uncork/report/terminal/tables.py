"""The input pipeline and the kernels of a step as tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from uncork.report.content.figures import (
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    format_rate,
)
from uncork.report.content.kernel_rows import KernelRow
from uncork.report.content.stage_rows import MAX_OPS, StageRow
from uncork.report.terminal.text import (
    MIN_FULL_WIDTH,
    align_right,
    borderless_table,
    one_line,
    truncate_start,
)


def kernel_table(rows: Sequence[KernelRow], width: int) -> Table:
    """One row for each part.

    Args:
        rows: The longest first.
        width: Of the terminal.
    """
    grid = borderless_table("kernels of", "a step", "share", "calls", "", "")
    for row in rows:
        figures = (
            format_duration(row.seconds),
            format_percent(row.share),
            format_count(row.calls_per_step),
        )
        told = " ".join(filter(None, (row.main_kernel, row.trait)))
        grid.add_row(
            one_line(row.owner, width - 70),
            *map(align_right, figures),
            truncate_start(row.at or "", 18),
            one_line(told, 22),
        )
    return grid


def most_expensive_rows(rows: Sequence[StageRow], max_rows: int) -> tuple[StageRow, ...]:
    """At most so many stages, in the order of the pipeline: the bottleneck and the dearest."""
    order = sorted(rows, key=lambda row: (not row.is_bottleneck, -(row.cpu_s_per_step or 0.0)))
    kept = {row.index for row in order[:max_rows]}
    return tuple(row for row in rows if row.index in kept)


def stage_table(
    rows: Sequence[StageRow], width: int, *, per: str = "step", max_ops: int = MAX_OPS
) -> Table:
    """What each stage costs, one row for each; branches are indented, as are costly ops of maps.

    Args:
        rows: Source first.
        width: Of the terminal.
        per: What CPU time is counted for.
        max_ops: To show of a map.
    """
    full = width >= MIN_FULL_WIDTH
    grid = borderless_table(
        "stage", "alone", f"cpu/{per}", "share", *(["element"] if full else []), "", ""
    )
    for row in rows:
        figures = [
            format_rate(row.samples_per_s),
            format_duration(row.cpu_s_per_step),
            format_percent(row.share),
        ]
        runs = " ".join(filter(None, (row.parallelism_text, *row.traits)))
        grid.add_row(
            "  " * row.depth + one_line(f"{row.kind} {row.name}", width - (76 if full else 68)),
            *map(align_right, [*figures, format_bytes(row.bytes_per_element)] if full else figures),
            truncate_start(row.at or "", 18),
            "← bottleneck" if row.is_bottleneck else one_line(runs, 16),
            style="bold red" if row.is_bottleneck else "",
        )
        for each in row.op_rows[:max_ops]:
            figures = [
                "",
                format_duration(each.cpu_s_per_step),
                format_percent((row.share or 0.0) * each.share),
            ]
            grid.add_row(
                "  " * (row.depth + 1) + one_line(each.op, width - (76 if full else 68)),
                *map(align_right, [*figures, ""] if full else figures),
                truncate_start(each.at or "", 18),
                "",
                style="dim",
            )
    return grid
