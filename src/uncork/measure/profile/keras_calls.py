"""What a loop spends in Keras's ``evaluate`` and ``predict``, and with what it calls them."""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import keras

from uncork.compat.keras3.trainer import IN_FIT, TensorFlowTrainer
from uncork.compat.tf.functions import total_tracing_s
from uncork.pycode.frames.stack import format_location, user_frame

_METHODS: Final = ("evaluate", "predict")
# The last of them, for a proof.
_HELD: Final = 6


@dataclass(frozen=True)
class KerasCall:
    """One call.

    Attributes:
        method: Keras's own: the model is its first argument.
        model: The user's.
        arguments: To it, by name.
    """

    method: Callable[..., Any]
    model: Any
    arguments: dict[str, Any]

    @property
    def is_repeatable(self) -> bool:
        """It reads arrays, which stay; a generator would be read on, a loader do its work again."""
        read = keras.tree.flatten([self.arguments.get(n) for n in ("x", "y", "sample_weight")])
        are_arrays = all(each is None or hasattr(each, "shape") for each in read)
        return are_arrays and not self.arguments.get("callbacks")

    def repeat(self) -> Any:
        """The same call again, without a progress bar."""
        return self.method(self.model, **{**self.arguments, "verbose": 0})


@dataclass
class KerasCallTimes:
    """Calls that were seen.

    Attributes:
        seconds: In all of them.
        tracing_s: Of these, while TensorFlow traced functions.
        count: How many there were.
        repeatable_count: Of these, how many can be made again.
        last_calls: A few of those.
    """

    seconds: float = 0.0
    tracing_s: float = 0.0
    count: int = 0
    repeatable_count: int = 0
    last_calls: deque[KerasCall] = field(default_factory=lambda: deque(maxlen=_HELD))
    _lines: Counter[str] = field(default_factory=Counter)

    @property
    def at(self) -> str | None:
        """The user's line that spends most in them."""
        return max(self._lines, key=self._lines.__getitem__, default=None)

    def add(self, call: KerasCall, seconds: float, tracing_s: float, frame: Any) -> None:
        """Count one."""
        self.seconds, self.count = self.seconds + seconds, self.count + 1
        self.tracing_s += tracing_s
        if call.is_repeatable:
            self.repeatable_count += 1
            self.last_calls.append(call)
        users = user_frame(frame)
        if users is not None:
            line = format_location(users.f_code.co_filename, users.f_lineno)
            self._lines[line] += seconds  # type: ignore[assignment]


@contextmanager
def observe_keras_calls() -> Iterator[KerasCallTimes]:
    """Time each ``evaluate`` and ``predict`` inside the block but those of a ``fit``.

    Example:
        >>> import keras, numpy as np
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        >>> with observe_keras_calls() as found:
        ...     predictions = model.predict(np.ones((3, 2)), verbose=0)
        >>> (
        ...     found.count,
        ...     found.seconds > 0,
        ...     bool((found.last_calls[0].repeat() == predictions).all()),
        ... )
        (1, True, True)
    """
    found = KerasCallTimes()
    written = {name: getattr(TensorFlowTrainer, name) for name in _METHODS}

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(model: Any, *args: Any, **kwargs: Any) -> Any:
            if IN_FIT in kwargs:  # of a fit
                return method(model, *args, **kwargs)
            begin, traced_s = time.perf_counter(), total_tracing_s()
            answer = method(model, *args, **kwargs)
            seconds, traced_s = time.perf_counter() - begin, total_tracing_s() - traced_s
            _, *given = inspect.signature(method).bind(model, *args, **kwargs).arguments.items()
            found.add(KerasCall(method, model, dict(given)), seconds, traced_s, sys._getframe())
            return answer

        return call

    try:
        for name, method in written.items():
            setattr(TensorFlowTrainer, name, timed(method))
        yield found
    finally:
        for name, method in written.items():
            setattr(TensorFlowTrainer, name, method)
