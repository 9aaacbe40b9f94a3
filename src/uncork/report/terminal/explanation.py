"""An input pipeline as a tree of stages with their rates and source lines."""

from __future__ import annotations

from typing import Final

from rich.console import Group
from rich.text import Text

from uncork.core.documents.diagnosis import Explanation
from uncork.report.content.figures import duration, rate
from uncork.report.content.stage_rows import StageRow, rows_of
from uncork.report.terminal.tables import stage_table
from uncork.report.terminal.text import at_least, drawn

_NO_LINES: Final = (
    "Lines are kept of datasets made after Uncork was imported, behind TensorFlow, or used: make "
    "the dataset again."
)


def explanation_text(
    explanation: Explanation, width: int = 100, color: bool = False, unicode: bool = False
) -> str:
    """The pipeline, source first; branches stand indented above the stage that joins them.

    Rates are elements of the last stage a second; CPU time is that of one such element.
    """
    style = at_least(width, color, unicode)
    alone = (
        f"gives {rate(explanation.elements_per_s)} alone, "
        f"{duration(explanation.cpu_s_per_element)} of CPU each, on {explanation.cpus:g} cores"
    )
    rows = rows_of(explanation.stages, 1.0, explanation.cpus, name_slowest=True)
    table = stage_table(rows, style.width, per="element")
    told = [f"The bottleneck, {row.kind}, runs {row.runs}." for row in rows if _is_held_up(row)]
    unknown = [] if any(row.at for row in rows) else [_NO_LINES]
    below = [Text(each, style="dim") for each in (*told, *unknown)]
    return drawn([Group(Text(alone, style="bold"), table), *below], style)


def _is_held_up(row: StageRow) -> bool:
    return row.bottleneck and bool(row.runs)
