"""Which compiled functions a loop of the user's own calls, with what, and from which line."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from uncork.core.stack import place, user_frame


class CompiledCalls:
    """What was called by the main thread, functions that run inside others not counted.

    Attributes:
        count: How often.
        last: The last call, to be made again.
        at: The user's line that made it.
    """

    def __init__(self) -> None:
        self.count = 0
        self.last: Callable[[], Any] | None = None
        self.at: str | None = None
        self._functions: set[int] = set()

    @property
    def is_one(self) -> bool:
        """Always the same function."""
        return len(self._functions) == 1

    def add(self, function: Any, args: Any, kwargs: Any, frame: Any) -> None:
        """Count one."""
        self.count += 1
        self._functions.add(id(function))
        self.last = functools.partial(function, *args, **kwargs)
        users = user_frame(frame)
        self.at = place(users.f_code.co_filename, users.f_lineno) if users is not None else None


@contextmanager
def compiled_calls() -> Iterator[CompiledCalls]:
    """Watch them inside the block.

    Example:
        >>> double = tf.function(lambda x: 2 * x, autograph=False)
        >>> with compiled_calls() as found:
        ...     four = double(tf.constant(2))
        >>> found.count, int(found.last())
        (1, 4)
    """
    found, call = CompiledCalls(), Function.__call__

    @functools.wraps(call)
    def watched(function: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is threading.main_thread() and not tf.inside_function():
            found.add(function, args, kwargs, sys._getframe(1))
        return call(function, *args, **kwargs)

    Function.__call__ = watched
    try:
        yield found
    finally:
        Function.__call__ = call
