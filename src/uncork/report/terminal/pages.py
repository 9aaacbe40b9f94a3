"""A page of a cause or an optimization, as ``uncork explain`` prints it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def print_page(text: str, console: Console | None = None) -> None:
    """Print a page: formatted on a terminal, as it is into a file or pipe."""
    if console is None and not sys.stdout.isatty():
        sys.stdout.write(text)
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.markdown import Markdown  # noqa: PLC0415 - only a terminal needs it

    (console or Console()).print(Markdown(text, hyperlinks=False))
