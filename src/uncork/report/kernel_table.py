"""The kernels of a step as a table in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from uncork.report.figures import count, duration, percent
from uncork.report.kernel_rows import KernelRow
from uncork.report.text import line, right, table, tail


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
