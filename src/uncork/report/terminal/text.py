"""How text is drawn in a terminal: widths, tables, and what a plain stream can show."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Final, NamedTuple, TextIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from uncork.report.content.diagnosis_content import Tone
from uncork.report.content.figures import escape_control_characters, shorten_start, truncate

# Below this no table keeps its columns; lines wrap in the terminal instead.
_MIN_WIDTH: Final = 60
# Below this the least telling column of a table gives way.
MIN_FULL_WIDTH: Final = 92

TONES: Final[dict[Tone, str]] = {
    "healthy": "bold green",
    "bottleneck": "bold red",
    "unknown": "bold",
}

_ASCII: Final = str.maketrans("█▓▒▚░…→←✓✗µ", "#=-%.~><+xu")
_GLYPHS: Final = "█▓▒▚░…→←✓✗"


class TextStyle(NamedTuple):
    """How text may be drawn; unpacks into the arguments of the functions below."""

    width: int = 100
    color: bool = False
    unicode: bool = False


def detect_style(stream: TextIO, columns: int = 100) -> TextStyle:
    """What ``stream`` can show: outside a terminal no colour, and ASCII only.

    The variable NO_COLOR switches colours off (https://no-color.org).

    Example:
        >>> detect_style(io.StringIO())
        TextStyle(width=100, color=False, unicode=False)
    """
    try:
        _GLYPHS.encode(stream.encoding or "ascii")
        encodes = True
    except (UnicodeEncodeError, LookupError):
        encodes = False
    tty = stream.isatty()
    color = tty and not os.environ.get("NO_COLOR")
    return TextStyle(width=columns, color=color, unicode=tty and encodes)


def style_with_min_width(width: int, color: bool, unicode: bool) -> TextStyle:
    """A look that is wide enough for tables."""
    return TextStyle(max(width, _MIN_WIDTH), color, unicode)


def titled_block(
    title: str, body: RenderableType, max_rows: int = 1, row_count: int = 0
) -> RenderableType:
    """A block under its title, which says when only the ``max_rows`` important rows are shown."""
    head = Text().append(title, style="bold")
    if row_count > max_rows:
        head.append(f" ({max_rows} of {row_count}; all are in the HTML report)", style="dim")
    return Group(head, Padding(body, (0, 0, 0, 2)))


def borderless_table(*headings: str) -> Table:
    """Columns without borders under quiet headings."""
    grid = Table.grid(padding=(0, 2))
    for heading in headings:
        grid.add_column(heading, no_wrap=True)
    grid.add_row(*(Text(heading, style="dim") for heading in headings))
    return grid


def align_right(text: str) -> Text:
    """A figure, at the right of its column."""
    return Text(text, justify="right")


def one_line(text: str, width: int) -> str:
    """On one line, shortened where it must be."""
    return truncate(" ".join(escape_control_characters(text).split()), max(width, 8))


def truncate_start(path: str, width: int) -> str:
    """The end of a path says more than its start."""
    return shorten_start(escape_control_characters(path), width)


def render_text(
    blocks: Sequence[RenderableType], style: TextStyle, last: RenderableType = ""
) -> str:
    """Blocks one under the other, as the stream can show them.

    Args:
        blocks: With an empty line between.
        style: The stream's.
        last: Stands under them on a line that is never broken: to be copied.
    """
    return render_lines(
        [Group("", block) if number else block for number, block in enumerate(blocks)], style, last
    )


def render_lines(
    lines: Sequence[RenderableType], style: TextStyle, last: RenderableType = ""
) -> str:
    """Lines one under the other, without empty ones between; ``last`` is never broken."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=style.width,
        force_terminal=style.color,
        color_system="standard" if style.color else None,
        no_color=not style.color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for line in lines:
        console.print(line)
    if last:
        console.print(last, soft_wrap=True)
    text = "\n".join(row.rstrip() for row in out.getvalue().splitlines()) + "\n"
    return text if style.unicode else _ascii(text)


def next_line(command: str) -> Text:
    """The command to type next: to be copied, so never broken."""
    return Text("Next: ").append(escape_control_characters(command), style="bold cyan")


def _ascii(text: str) -> str:
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")
