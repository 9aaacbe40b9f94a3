"""The kernels of a step as a table in the terminal.

The input pipeline as a table in the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from uncork.report.content.figures import count, duration, percent, rate, size
from uncork.report.content.kernel_rows import KernelRow
from uncork.report.content.stage_rows import MOST_OPS, StageRow
from uncork.report.terminal.text import FULL_WIDTH, line, right, table, tail


def kernel_table(rows: Sequence[KernelRow], width: int) -> Table:
    """One row for each part.

    Args:
        rows: The longest first.
        width: Of the terminal.
    """
    grid = table("kernels of", "a step", "share", "calls", "", "")
    for row in rows:
        figures = (duration(row.seconds), percent(row.share), count(row.calls))
        told = " ".join(filter(None, (row.kernel, row.trait)))
        grid.add_row(
            line(row.whose, width - 70),
            *map(right, figures),
            tail(row.at or "", 18),
            line(told, 22),
        )
    return grid


def costliest(rows: Sequence[StageRow], most: int) -> tuple[StageRow, ...]:
    """At most so many stages, in the order of the pipeline: the bottleneck and the dearest."""
    order = sorted(rows, key=lambda row: (not row.bottleneck, -(row.cpu_s_per_step or 0.0)))
    kept = {row.index for row in order[:most]}
    return tuple(row for row in rows if row.index in kept)


def stage_table(
    rows: Sequence[StageRow], width: int, *, per: str = "step", most_ops: int = MOST_OPS
) -> Table:
    """What each stage costs, one row for each; branches are indented, as are costly ops of maps.

    Args:
        rows: Source first.
        width: Of the terminal.
        per: What CPU time is counted for.
        most_ops: To show of a map.
    """
    full = width >= FULL_WIDTH
    grid = table("stage", "alone", f"cpu/{per}", "share", *(["element"] if full else []), "", "")
    for row in rows:
        figures = [rate(row.samples_per_s), duration(row.cpu_s_per_step), percent(row.share)]
        runs = " ".join(filter(None, (row.runs, *row.traits)))
        grid.add_row(
            "  " * row.depth + line(f"{row.kind} {row.name}", width - (76 if full else 68)),
            *map(right, [*figures, size(row.bytes_per_element)] if full else figures),
            tail(row.at or "", 18),
            "← bottleneck" if row.bottleneck else line(runs, 16),
            style="bold red" if row.bottleneck else "",
        )
        for each in row.ops[:most_ops]:
            figures = ["", duration(each.cpu_s_per_step), percent((row.share or 0.0) * each.share)]
            grid.add_row(
                "  " * (row.depth + 1) + line(each.op, width - (76 if full else 68)),
                *map(right, [*figures, ""] if full else figures),
                tail(each.at or "", 18),
                "",
                style="dim",
            )
    return grid
