"""The pages of causes and optimizations, as ``uncork explain`` prints them."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from uncork.core.base.errors import WrongUse

if TYPE_CHECKING:
    from rich.console import Console

_REPORT: Final = Path(__file__).parents[1]
# In a wheel the pages are beside this package, in a checkout in its docs.
_FOLDERS: Final = (_REPORT / "pages", _REPORT.parents[2] / "docs")
_KINDS: Final = ("causes", "optimizations")


def page_names() -> tuple[str, ...]:
    """Names of all pages: causes of a diagnosis, then optimizations.

    Example:
        >>> {"cache_missing", "parallel_map"} <= set(page_names())
        True
    """
    return tuple(path.stem for path in _pages().values())


def read_page(name: str) -> str:
    """The Markdown text of one page.

    Args:
        name: Of a cause or an optimization.

    Raises:
        WrongUse: There is no page of this name.

    Example:
        >>> read_page("serial_map").splitlines()[0]
        '# serial_map'
    """
    pages = _pages()
    if name not in pages:
        close = difflib.get_close_matches(name, pages, n=3, cutoff=0.5)
        known = ", ".join(close or sorted(pages))
        raise WrongUse(
            f"no cause or optimization is named {name!r}",
            f"a name from a diagnosis or a plan: {known}",
            f"uncork explain {close[0] if close else next(iter(pages))}",
        )
    return pages[name].read_text(encoding="utf-8")


def print_page(text: str, console: Console | None = None) -> None:
    """Print a page: formatted on a terminal, as it is into a file or pipe."""
    if console is None and not sys.stdout.isatty():
        sys.stdout.write(text)
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.markdown import Markdown  # noqa: PLC0415 - only a terminal needs it

    (console or Console()).print(Markdown(text, hyperlinks=False))


def _pages() -> dict[str, Path]:
    folder = next(folder for folder in _FOLDERS if folder.is_dir())
    pages: dict[str, Path] = {}
    for kind in _KINDS:
        for path in sorted((folder / kind).glob("*.md")):
            pages.setdefault(path.stem, path)
    return pages
