"""Has the script left the loop that its training is? From there on it makes use of the weights."""

from __future__ import annotations

import threading
from types import CodeType, FrameType

from uncork.core.stack import outwards, owner
from uncork.engine.repetition import loops_of


class LoopLines:
    """The lines of the loops that a training stands in, in all functions on the stack.

    Args:
        frame: Of the training step or below it.
    """

    def __init__(self, frame: FrameType | None) -> None:
        self._thread = threading.get_ident()
        self._lines: dict[CodeType, range] = {}
        for each in outwards(frame):
            loops = loops_of(each) if owner(each) == "user" else []
            if loops:
                end = loops[0].end_lineno or loops[0].lineno
                self._lines[each.f_code] = range(loops[0].lineno, end + 1)

    @property
    def for_good(self) -> bool:
        """Once left they are not entered again: no function is called to run them."""
        return bool(self._lines) and all(code.co_name == "<module>" for code in self._lines)

    def left(self, frame: FrameType | None) -> bool:
        """Whether the script is in none of them; False on another thread, where nobody knows.

        Args:
            frame: Where it is now.
        """
        if not self._lines or threading.get_ident() != self._thread:
            return False
        return not any(
            each.f_lineno in self._lines.get(each.f_code, ()) for each in outwards(frame)
        )
