"""What stands in the place of somebody else's function while a step is traced.

A graph keeps what was called when it was traced. So a function that gives way for that long, and on
the thread that traces, is met by that graph alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from uncork.compat.tf.functions import make_decorator


class ScopedOverride:
    """An attribute that gives way to ours for as long as any thread needs that.

    Args:
        owner: Finds whose attribute it is.
        name: Of it.
        replacement: In its place; asks :attr:`handler` who is to answer on its thread.

    Attributes:
        original: What gave way.

    Example:
        >>> from types import SimpleNamespace
        >>> there = SimpleNamespace(greet=lambda: "hello")
        >>> place = ScopedOverride(
        ...     lambda: there, "greet", lambda: place.handler or place.original()
        ... )
        >>> with place.use_handler("good day"):
        ...     there.greet()
        'good day'
        >>> there.greet()
        'hello'
    """

    def __init__(
        self, owner: Callable[[], Any], name: str, replacement: Callable[..., Any]
    ) -> None:
        self.original: Any = None
        self._owner = owner
        self._name = name
        self._ours = replacement
        self._lock = threading.Lock()
        self._needed = 0
        self._here = threading.local()

    @property
    def handler(self) -> Any:
        """Whom it gives way to on this thread; None where that is nobody."""
        return getattr(self._here, "answering", None)

    @contextmanager
    def use_handler(self, new_handler: Any) -> Iterator[None]:
        """Inside the block, on this thread, this one answers."""
        outer, owner = self.handler, self._owner()
        with self._lock:
            if self._needed == 0:
                self.original = getattr(owner, self._name)
                setattr(owner, self._name, self._ours)
            self._needed += 1
        self._here.answering = new_handler
        try:
            yield
        finally:
            self._here.answering = outer
            with self._lock:
                self._needed -= 1
                if self._needed == 0 and getattr(owner, self._name) is self._ours:
                    setattr(owner, self._name, self.original)


def wrap_traced(
    python: Callable[..., Any], create_context: Callable[[], AbstractContextManager[None]]
) -> Callable[..., Any]:
    """A Python function around which something is in force whenever it is traced.

    Args:
        python: What a ``tf.function`` is made of. TensorFlow converts its branches as before.
        create_context: Makes what is in force.
    """

    def traced(*args: Any, **kwargs: Any) -> Any:
        with create_context():
            # TensorFlow puts its conversion of the function there.
            return traced.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]

    decorated: Callable[..., Any] = make_decorator(python, traced)
    return decorated
