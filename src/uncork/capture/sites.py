"""Numbers of the training call sites, in order of reaching."""

from __future__ import annotations


class Sites:
    """Gives each ``file.py:line`` a number; the same line keeps its number.

    Example:
        >>> sites = Sites()
        >>> sites.index("train.py:3"), sites.index("train.py:9"), sites.index("train.py:3")
        (0, 1, 0)
    """

    def __init__(self) -> None:
        self._indices: dict[str, int] = {}

    def index(self, at: str) -> int:
        """The number of a call site; a new one for a new site."""
        return self._indices.setdefault(at, len(self._indices))
