"""Two plans side by side in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from uncork.report.content.figures import escape_control_characters, format_words
from uncork.report.content.plan_comparison import ComparedRow, PlanComparison
from uncork.report.terminal.text import (
    render_text,
    style_with_min_width,
    titled_block,
    truncate_start,
)


def comparison_text(
    comparison: PlanComparison, width: int = 100, color: bool = False, unicode: bool = False
) -> str:
    """What two plans have, one beside the other; rows that differ begin with ``*``."""
    style = style_with_min_width(width, color, unicode)
    blocks: list[RenderableType] = [
        Text(escape_control_characters(comparison.sentence), style="bold"),
        Text(comparison.caveat, style="dim"),
    ]
    for title, rows in (("Figures", comparison.figures), ("Optimizations", comparison.steps)):
        if rows:
            blocks.append(titled_block(title, _table(comparison.paths, rows, style.width)))
    return render_text(blocks, style)


def _table(paths: tuple[str, str], rows: Sequence[ComparedRow], width: int) -> Table:
    labels = max(len(row.label) for row in rows) + 2
    column = max((width - labels - 8) // 2, 12)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    for _ in paths:
        grid.add_column(width=column, overflow="fold")
    grid.add_row("", *(Text(truncate_start(path, column), style="dim") for path in paths))
    for row in rows:
        mark = "  " if row.first == row.second else "* "
        values = (escape_control_characters(value) for value in (row.first, row.second))
        grid.add_row(f"{mark}{format_words(row.label)}", *values)
    return grid
