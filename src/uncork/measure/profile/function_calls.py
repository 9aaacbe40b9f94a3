"""Which compiled functions a loop of the user's own calls, with what, and from which line."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from uncork.compat.tf.functions import Function
from uncork.pycode.frames.stack import code_owner, format_location, iterate_frames, user_frame


class CompiledCalls:
    """What was called by the main thread, functions that run inside others not counted.

    Attributes:
        count: How often.
        at: The user's line that made the last call.
        source_line: The same, its file and number.
        caller_names: Names of the user's functions from which calls were made.
        is_called_by_user_code: Nothing of Keras's stood between them and the functions.
    """

    def __init__(self) -> None:
        self.count = 0
        self.at: str | None = None
        self.source_line = ("", 0)
        self.caller_names: tuple[str, ...] = ()
        self.is_called_by_user_code = True
        self._calls: dict[int, functools.partial[Any]] = {}

    @property
    def last_calls(self) -> tuple[functools.partial[Any], ...]:
        """The last call of each function, to be made again."""
        return tuple(self._calls.values())

    def add(self, function: Any, args: Any, kwargs: Any, frame: Any) -> None:
        """Count one."""
        self.count += 1
        self._calls[id(function)] = functools.partial(function, *args, **kwargs)
        users = user_frame(frame)
        self.is_called_by_user_code = self.is_called_by_user_code and not _is_keras_s(frame)
        if users is None:
            self.at = None
            return
        self.source_line = (users.f_code.co_filename, users.f_lineno)
        self.at = format_location(*self.source_line)
        if users.f_code.co_name not in self.caller_names:
            self.caller_names = (*self.caller_names, users.f_code.co_name)


def _is_keras_s(frame: Any) -> bool:
    """Its trainer calls functions of its own, which nobody runs otherwise there."""
    return (
        next((who for who in map(code_owner, iterate_frames(frame)) if who != "library"), "")
        == "keras"
    )


@contextmanager
def observe_compiled_calls() -> Iterator[CompiledCalls]:
    """Watch them inside the block.

    Example:
        >>> double = tf.function(lambda x: 2 * x, autograph=False)
        >>> with observe_compiled_calls() as found:
        ...     four = double(tf.constant(2))
        >>> found.count, int(found.last_calls[0]())
        (1, 4)
    """
    found, call = CompiledCalls(), Function.__call__

    @functools.wraps(call)
    def watched(function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is threading.main_thread() and not tf.inside_function():
            found.add(function, args, kwargs, sys._getframe(1))
        return call(function, *args, **kwargs)

    Function.__call__ = watched
    try:
        yield found
    finally:
        Function.__call__ = call
