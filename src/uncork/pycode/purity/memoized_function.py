"""A Python function whose answers are kept: asked the same again, it hands out a copy."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.pycode.purity.random_draws import RandomStates
from uncork.pycode.purity.reachability import find_reachable_from_function, value_digest

# What the answers may take more than was seen when the plan was made.
MAX_GROWTH_RATIO: Final = 1.25
# Of an array or tensor beside its values, and of an answer beside what it holds: its key, say.
_OBJECT_BYTES: Final = 128
RESULT_OVERHEAD_BYTES: Final = 350
# Where a look takes no more of the time of a call, there is one before every answer.
_CHEAP: Final = 0.05


@dataclass
class _Answer:
    """What a call gave, in which pass it was last handed out, and whether it may be at all."""

    made: Any
    served: int
    trusted: bool


class MemoizedFunction:
    """Stands in for a function that depends on its arguments alone.

    Before an answer is handed out, all that the function can get at is digested: where a callback,
    or anybody, has changed something, the answers are made anew. They are made twice then, and kept
    if all are equal, as far as they are asked again: the function may draw now what it did not when
    that was looked at, and what TensorFlow draws leaves no trace. Where looking takes long, it is
    done once for each pass over the data: whoever asks the same a second time is in another one.

    Args:
        function: Of the user's.
        max_bytes: That all answers take, as far as was seen.

    Example:
        >>> roots = MemoizedFunction(np.sqrt, max_bytes=1_000)
        >>> float(roots(np.float32(4.0))), float(roots(np.float32(4.0))), len(roots)
        (2.0, 2.0, 1)
    """

    def __init__(self, function: Callable[..., Any], max_bytes: int) -> None:
        self.function = function
        self._most = self._room = MAX_GROWTH_RATIO * max_bytes
        self._answers: dict[str, _Answer] = {}
        self._lock = threading.Lock()
        self._pass = 0
        found = find_reachable_from_function(function)
        self._state, self._generators = found.digest, found.generators
        self._trusts = True
        self._draws = False
        # A pass begins that may not ask what the one before it, left in the middle, has asked.
        self._due = False
        self._look_s = 0.0
        self._call_s = 0.0
        _ALL.add(self)

    def __len__(self) -> int:
        """Answers that are kept."""
        return len(self._answers)

    def __call__(self, *arguments: Any) -> Any:
        """What the function answers, or answered."""
        key = _key(arguments)
        if key is None:
            return self.function(*arguments)
        with self._lock:
            if not (self._state and self._pass):
                self._look()
            answer = self._answers.get(key)
            if answer is not None and (self._due or answer.served == self._pass or self._cheap):
                self._look()
                answer = self._answers.get(key)
            if answer is not None and answer.trusted:
                answer.served = self._pass
                return copy_for_tensorflow(answer.made)
        return self._asked(key, arguments, answer)

    def note_pass_start(self) -> None:
        """Somebody begins to read: look before the next answer is handed out."""
        self._due = True

    def clear(self) -> None:
        """Let go of all answers."""
        self._answers.clear()
        self._room = self._most

    @property
    def _cheap(self) -> bool:
        return self._look_s <= _CHEAP * self._call_s

    def _look(self) -> None:
        """Is all that the function can get at as it was?"""
        begin = time.perf_counter()
        found = find_reachable_from_function(self.function)
        if not found.digest or found.digest != self._state:
            self.clear()
            self._trusts = self._draws = False
        self._state, self._generators = found.digest, found.generators
        self._pass += 1
        self._due = False
        self._look_s = time.perf_counter() - begin

    def _asked(self, key: str, arguments: tuple[Any, ...], before_it: _Answer | None) -> Any:
        state, draws = self._state, RandomStates(self._generators)
        before, begin = draws.all_current_states(), time.perf_counter()
        made = self.function(*arguments)
        self._call_s = time.perf_counter() - begin
        drew = (
            draws.all_current_states() != before
        )  # or somebody else did meanwhile; then it is asked again
        with self._lock:
            if state and state == self._state and not (drew or self._draws):
                self._keep(key, made, before_it)
        return made

    def _keep(self, key: str, made: Any, before_it: _Answer | None) -> None:
        if before_it is not None:
            before_it.served = self._pass
            before_it.trusted = are_equal(copy_for_tensorflow(made), before_it.made)
            if not before_it.trusted:  # then others were equal by chance
                self.clear()
                self._draws = True
            return
        size = RESULT_OVERHEAD_BYTES + size_in_bytes(made)
        if size <= self._room:
            self._room -= size
            self._answers[key] = _Answer(copy_for_tensorflow(made), self._pass, self._trusts)


_ALL: Final[weakref.WeakSet[MemoizedFunction]] = weakref.WeakSet()


def note_data_pass_start() -> None:
    """Over some data: whatever keeps answers looks whether they still hold."""
    for kept in list(_ALL):
        kept.note_pass_start()


def _key(arguments: tuple[Any, ...]) -> str | None:
    """Equal for equal arguments; None for what cannot be told."""
    try:
        return value_digest(arguments)
    except Exception:
        return None


def result_digest(result: Any) -> str | None:
    """Equal for what is equal in all that can be told; None where that is not all."""
    return _key((result,))


def are_equal(result: Any, before: Any) -> bool:
    """In all that can be told of them."""
    digest = result_digest(result)
    return digest is not None and digest == result_digest(before)


def copy_for_tensorflow(result: Any) -> Any:
    """For TensorFlow, which may take an array as it is, and compute in its place."""
    return tf.nest.map_structure(copy_leaf, result, expand_composites=True)


def copy_leaf(leaf: Any) -> Any:
    """An array that nobody else writes to; a tensor in the host's memory, not the device's."""
    if isinstance(leaf, np.ndarray):
        return leaf.copy()
    if isinstance(leaf, tf.Tensor) and "CPU" not in leaf.device:
        with tf.device("/CPU:0"):
            return tf.identity(leaf)
    return leaf


def size_in_bytes(result: Any) -> int:
    """Bytes of all arrays and tensors in it, strings by their length, and of these objects."""
    return values_bytes(result) + _OBJECT_BYTES * len(_leaves(result))


def values_bytes(result: Any) -> int:
    """Of all arrays, tensors and numbers in it, strings by their length; not of the objects.

    Example:
        >>> values_bytes({"x": tf.zeros([2, 3]), "text": np.array(["abc", "d"], object)})
        28
    """
    return sum(map(_bytes, _leaves(result)))


def _leaves(made: Any) -> list[Any]:
    found: list[Any] = tf.nest.flatten(made, expand_composites=True)
    return found


def _bytes(leaf: Any) -> int:
    if isinstance(leaf, tf.Tensor) and leaf.dtype != tf.string:
        return int(leaf.shape.num_elements() * leaf.dtype.size)
    array = np.asarray(leaf)
    if array.dtype != object:
        return int(array.nbytes)
    return sum(len(each) if isinstance(each, (str, bytes)) else 0 for each in array.flat)
