"""An input pipeline as a tree of stages with their rates and source lines."""

from __future__ import annotations

from typing import Final

from rich.console import Group
from rich.text import Text

from uncork.core.explanation import Explanation
from uncork.report.figures import duration, rate
from uncork.report.stage_table import stage_table
from uncork.report.stages import rows_of
from uncork.report.text import at_least, drawn

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
    unknown = [] if any(row.at for row in rows) else [Text(_NO_LINES, style="dim")]
    return drawn([Group(Text(alone, style="bold"), table), *unknown], style)
