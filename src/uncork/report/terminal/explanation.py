"""An input pipeline as a tree of stages with their rates and source lines."""

from __future__ import annotations

from typing import Final

from rich.console import Group
from rich.text import Text

from uncork.core.documents.diagnosis import Explanation
from uncork.report.content.figures import format_duration, format_rate
from uncork.report.content.stage_rows import StageRow, build_stage_rows
from uncork.report.terminal.tables import stage_table
from uncork.report.terminal.text import render_text, style_with_min_width

_NO_LINES: Final = (
    "Uncork knows the lines only of datasets created after it was imported. Import Uncork after "
    "TensorFlow, then create the dataset again."
)


def explanation_text(
    explanation: Explanation, width: int = 100, color: bool = False, unicode: bool = False
) -> str:
    """The pipeline, source first; branches stand indented above the stage that joins them.

    Rates are elements of the last stage a second; CPU time is that of one such element.
    """
    style = style_with_min_width(width, color, unicode)
    alone = (
        f"gives {format_rate(explanation.elements_per_s)} in isolation, "
        f"{format_duration(explanation.cpu_s_per_element)} of CPU each, on {explanation.cpus:g} "
        "cores"
    )
    rows = build_stage_rows(explanation.stages, 1.0, explanation.cpus, has_bottleneck=True)
    table = stage_table(rows, style.width, per="element")
    told = [
        f"The bottleneck, {row.kind}, runs {row.parallelism_text}."
        for row in rows
        if _is_held_up(row)
    ]
    unknown = [] if any(row.at for row in rows) else [_NO_LINES]
    below = [Text(each, style="dim") for each in (*told, *unknown)]
    return render_text([Group(Text(alone, style="bold"), table), *below], style)


def _is_held_up(row: StageRow) -> bool:
    return row.is_bottleneck and bool(row.parallelism_text)
