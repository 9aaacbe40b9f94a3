"""A generator behind ``from_generator`` whose elements are kept: the next pass gets copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from uncork.pycode.purity.memoized_function import (
    MAX_GROWTH_RATIO,
    copy_for_tensorflow,
    result_digest,
    size_in_bytes,
)
from uncork.pycode.purity.random_draws import RandomStates
from uncork.pycode.purity.reachability import ReachableCode, find_reachable_from_function
from uncork.pycode.purity.side_effects import note_side_effects

_END: Final = object()


class MemoizedGenerator:
    """Stands in for a function whose generators yield the same each time.

    When a pass begins, all that the function can get at is digested. Where a callback, or anybody,
    has changed something since the pass that was kept, a generator is made and run anew; and once
    more in the pass after that, which must give the same, for it may draw now.

    Args:
        function: Of the user's; takes nothing and returns something to iterate over.
        max_bytes: That the elements take, as far as was seen.

    Example:
        >>> squares = MemoizedGenerator(lambda: (x * x for x in range(3)), max_bytes=1_000)
        >>> list(squares()), list(squares()), len(squares)
        ([0, 1, 4], [0, 1, 4], 3)
    """

    def __init__(self, function: Callable[[], Iterable[Any]], max_bytes: int) -> None:
        self.function = function
        self._most = MAX_GROWTH_RATIO * max_bytes
        self._kept: list[Any] = []
        self._state = ""
        self._known = find_reachable_from_function(function).digest
        self._trusts = True

    def __len__(self) -> int:
        """Elements that are kept."""
        return len(self._kept)

    def __call__(self) -> Iterator[Any]:
        """A pass over the elements."""
        found = find_reachable_from_function(self.function)
        self._seen(found.digest)
        same = bool(found.digest) and found.digest == self._state
        if same and self._trusts:
            return map(copy_for_tensorflow, self._kept)
        before = [result_digest(element) for element in self._kept] if same else None
        return self._noting(found, before)

    def _seen(self, digest: str) -> None:
        """All that the function can get at, at some moment."""
        self._trusts = self._trusts and digest == self._known
        self._known = digest

    def _noting(self, found: ReachableCode, before_it: list[str | None] | None) -> Iterator[Any]:
        """A pass over the user's own, of which all is kept if it fits and nothing else happened.

        Args:
            found: When it begins.
            before_it: Digests of what the pass before gave, where it is to give the same.
        """
        self._kept, self._state = [], ""
        made: list[Any] = []
        digests: list[str | None] = []
        room = self._most
        elements = iter(self.function())
        draws = RandomStates(found.generators)
        while True:
            # Between elements others may draw: the training does, and a trial gives states back.
            before = draws.all_current_states()
            with note_side_effects() as done:
                element = next(elements, _END)
            only_computed = not done and draws.all_current_states() == before
            if element is _END:
                break
            made.append(copy_for_tensorflow(element))
            if before_it is not None:
                digests.append(result_digest(made[-1]))  # a copy, as those before it
            room -= size_in_bytes(element)
            yield element
            if not only_computed or room < 0:  # nothing of this pass will be kept
                made.clear()
                yield from elements
                return
        self._seen(find_reachable_from_function(self.function).digest)
        if only_computed and found.digest and self._known == found.digest:
            same = before_it == digests and None not in digests
            self._trusts = self._trusts or same
            self._kept, self._state = made, found.digest
