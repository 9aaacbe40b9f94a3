"""A generator behind ``from_generator`` whose elements are kept: the next pass gets copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from uncork.pipeline.kept_calls import MORE, copied, size_of
from uncork.watch import Draws, reached_by
from uncork.watch.reach import Reached


class KeptGenerator:
    """Stands in for a function whose generators yield the same each time.

    When a pass begins, all that the function can get at is digested. Where a callback, or anybody,
    has changed something since the pass that was kept, a generator is made and run anew.

    Args:
        function: Of the user's; takes nothing and returns something to iterate over.
        most_bytes: That the elements take, as far as was seen.

    Example:
        >>> squares = KeptGenerator(lambda: (x * x for x in range(3)), most_bytes=1_000)
        >>> list(squares()), list(squares()), len(squares)
        ([0, 1, 4], [0, 1, 4], 3)
    """

    def __init__(self, function: Callable[[], Iterable[Any]], most_bytes: int) -> None:
        self.function = function
        self._most = MORE * most_bytes
        self._kept: list[Any] = []
        self._state = ""

    def __len__(self) -> int:
        """Elements that are kept."""
        return len(self._kept)

    def __call__(self) -> Iterator[Any]:
        """A pass over the elements."""
        found = reached_by(self.function)
        if found.digest and found.digest == self._state:
            return map(copied, self._kept)
        return self._noting(found)

    def _noting(self, found: Reached) -> Iterator[Any]:
        """A pass over the user's own, of which all is kept if it fits and nothing else happened."""
        self._kept, self._state = [], ""
        made: list[Any] = []
        room = self._most
        elements = iter(self.function())
        for element, drew in _telling_draws(elements, Draws(found.generators)):
            made.append(copied(element))
            room -= size_of(element)
            yield element
            if drew or room < 0:  # nothing of this pass will be kept
                made.clear()
                yield from elements
                return
        if found.digest and reached_by(self.function).digest == found.digest:
            self._kept, self._state = made, found.digest


def _telling_draws(elements: Iterator[Any], draws: Draws) -> Iterator[tuple[Any, bool]]:
    """Each element, and whether any random state was moved on while it was made.

    Between elements others may draw: the training does, and a trial gives states back.
    """
    while True:
        before = draws.now()
        try:
            element = next(elements)
        except StopIteration:
            return
        yield element, draws.now() != before
