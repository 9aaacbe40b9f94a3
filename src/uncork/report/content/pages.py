"""The pages of causes and optimizations, as they are shipped."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from uncork.core.base.errors import WrongUse

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


def select_pages(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The pages that there are of some names, each once, as name and text.

    Example:
        >>> [name for name, _ in select_pages(["cache", "no_such_page", "cache"])]
        ['cache']
    """
    pages = _pages()
    found = (name for name in dict.fromkeys(names) if name in pages)
    return tuple((name, pages[name].read_text(encoding="utf-8")) for name in found)


def _pages() -> dict[str, Path]:
    folder = next(folder for folder in _FOLDERS if folder.is_dir())
    pages: dict[str, Path] = {}
    for kind in _KINDS:
        for path in sorted((folder / kind).glob("*.md")):
            pages.setdefault(path.stem, path)
    return pages
