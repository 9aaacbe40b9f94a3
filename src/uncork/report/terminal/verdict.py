"""The short verdict of a diagnosis or a plan: at most 25 lines, with those that name the files."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from uncork.core.documents.diagnosis import Diagnosis
from uncork.core.documents.plan import Plan
from uncork.report.content.diagnosis_content import diagnosis_info
from uncork.report.content.figures import escape_control_characters
from uncork.report.content.plan_content import plan_info
from uncork.report.content.verdict_rows import (
    VerdictLine,
    VerdictRow,
    diagnosis_rows,
    plan_rows,
)
from uncork.report.terminal.text import (
    TONES,
    TextStyle,
    next_line,
    render_lines,
    style_with_min_width,
)

# The command line prints up to three more: the plan, the report, the log.
MAX_LINES: Final = 22
_LABEL_WIDTH: Final = 13
_MORE: Final = " ..."


def diagnosis_verdict_text(
    diagnosis: Diagnosis,
    width: int = 100,
    color: bool = False,
    unicode: bool = False,
) -> str:
    """The verdict of a diagnosis; the last line is the next command to type."""
    style, info = style_with_min_width(width, color, unicode), diagnosis_info(diagnosis)
    return _text(diagnosis_rows(info), style, next_line(info.next_command))


def plan_verdict_text(
    plan: Plan,
    width: int = 100,
    color: bool = False,
    unicode: bool = False,
    path: str = "plan.json",
) -> str:
    """The verdict of a plan; the last line is the next command to type.

    Args:
        plan: The plan.
        width: In characters.
        color: The reader shows colours.
        unicode: The reader shows more than ASCII.
        path: Where the plan lies.
    """
    style, info = style_with_min_width(width, color, unicode), plan_info(plan, path)
    return _text(plan_rows(info), style, next_line(info.next_command))


def _text(rows: Sequence[VerdictRow], style: TextStyle, last: RenderableType) -> str:
    lines = [line for row in rows for line in _row(row, style.width)]
    return render_lines(lines[: MAX_LINES - 1], style, last)


def _row(row: VerdictRow, width: int) -> list[Text]:
    """A row as lines of the terminal: the label stands before the first."""
    shown = [line for each in row.lines for line in _wrapped(each, width - _LABEL_WIDTH)]
    labels = [row.label, *[""] * len(shown)]
    return [
        Text(f"{label:<{_LABEL_WIDTH}}", style="bold").append_text(line)
        for label, line in zip(labels, shown[: row.max_lines], strict=False)
    ]


def _wrapped(line: VerdictLine, width: int) -> list[Text]:
    text = escape_control_characters(" ".join(line.text.split()))
    cut = textwrap.wrap(
        text, width, max_lines=line.max_lines, placeholder=_MORE, break_on_hyphens=False
    )
    style = "not bold" if line.tone is None else f"not bold {TONES[line.tone]}"
    return [Text(part, style=style) for part in cut]
