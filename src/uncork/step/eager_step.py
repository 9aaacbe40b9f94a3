"""A training step that runs op by op from Python: watched, and run as a ``tf.function`` instead.

A graph does in each call what it did when it was traced. What Python does beside TensorFlow's ops
happens then only: what it prints, counts, collects or draws would be lost, what it reads would
stand still. So a step is watched before it may become a graph, and what it reads is guarded as long
as it is one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.step.taken_over import TakenOver
from uncork.watch import Guards, UnguardedError, watched

# Of one step, with the same Python around it: other shapes. More are other values of an argument.
_MOST_TRACES: Final = 8
# What it reads may change as often, with the epochs; then it is watched and traced once more.
_MOST_LOOKS: Final = 64
_RECORDED: Final = 64
_RECORDED_BYTES: Final = 128 << 20


class Mode(enum.Enum):
    """How a step runs when it is called."""

    EAGER = "op by op, as written"
    GRAPH = "as a tf.function"


Call = tuple[tuple[Any, ...], dict[str, Any]]


class EagerStep:
    """A function of the user's that trains op by op, taken over wherever it is called from.

    Its first call is watched. Afterwards it runs as :attr:`mode` says.

    Args:
        function: Holds the gradient tape, or calls what does.
        on_refusal: Told why it goes on op by op, when it was to be a graph.

    Attributes:
        mode: How it runs.
        refusal: Why it cannot be a graph; ``""`` where it can, as far as was seen. None as long as
            it was not called.
        instead: Gets the arguments of each call, when set, in the place of :meth:`run`.
        calls: The first calls' arguments, when :attr:`recording`.
        code: Digest of all code of the user's that it runs.
    """

    def __init__(
        self, function: FunctionType, on_refusal: Callable[[str], None] = lambda _: None
    ) -> None:
        self.mode = Mode.EAGER
        self.refusal: str | None = None
        self.instead: Callable[[tuple[Any, ...], dict[str, Any]], Any] | None = None
        self.recording = False
        self.calls: list[Call] = []
        self._on_refusal = on_refusal
        self.code = ""
        self._bytes = 0
        self._looks = 0
        self._graph: Any = None
        self._guards: Guards | None = None
        self._task: Callable[[], None] | None = None
        self._taken = TakenOver(function, self)
        self.eagerly = self._taken.original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """In the place of the user's function."""
        if not tf.executing_eagerly():  # called from a graph of the user's own
            return self.eagerly(*args, **kwargs)
        if self.instead is not None:
            return self.instead(args, kwargs)
        return self.run(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The step as :attr:`mode` says."""
        task, self._task = self._task, None
        if task is not None:
            task()
        if self.refusal is None and tf.distribute.has_strategy():
            self._refuse("it runs under a tf.distribute strategy")
        if self.refusal is None:
            return self._watched(args, kwargs)
        if self.recording:
            self._record(args, kwargs)
        if self.mode is Mode.GRAPH and not self.refusal:
            return self._as_graph(args, kwargs)
        return self.eagerly(*args, **kwargs)

    def code_now(self) -> str:
        """Digest of all code of the user's that it may run; ``""`` where that cannot be told."""
        try:
            return Guards(self.eagerly).code
        except UnguardedError:
            return ""

    def at_next_call(self, task: Callable[[], None]) -> None:
        """Run something on the user's thread, where its device and its strategy are set."""
        self._task = task

    def graph(self) -> Any:
        """The step as a ``tf.function``; only where there is no :attr:`refusal`."""
        if self._graph is None:
            self._graph = tf.function(self.eagerly)
        return self._graph

    def give_back(self) -> None:
        """Let the user's function be what it was."""
        self._taken.give_back()

    def _watched(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call op by op, to see what it does beside computing."""
        self._graph, self._looks = None, self._looks + 1
        try:
            guards = self._guards = Guards(self.eagerly)
        except UnguardedError as reason:
            self._refuse(str(reason))
            return self.eagerly(*args, **kwargs)
        found, refusal = watched(guards, lambda: self.eagerly(*args, **kwargs))
        if not refusal and not all(map(_is_tensor, tf.nest.flatten(found))):
            refusal = "it returns something that is no tensor"
        if refusal:
            self._refuse(refusal)
        else:
            self.refusal, self.code = "", guards.code
        return found

    def _as_graph(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert self._guards is not None
        changed = self._guards.changed()
        if changed is not None and self._looks >= _MOST_LOOKS:
            self._refuse(f"{changed} changes from call to call")
            return self.eagerly(*args, **kwargs)
        if changed is not None:
            return self._watched(args, kwargs)
        graph = self.graph()
        try:
            return graph(*args, **kwargs)
        except Exception:
            if self._traces(args, kwargs):
                raise  # what the step itself raised
        finally:
            if graph.experimental_get_tracing_count() > _MOST_TRACES:
                self._refuse("it is given another value of Python's at each call")
        return self.eagerly(*args, **kwargs)

    def _traces(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        try:
            self.graph().get_concrete_function(*args, **kwargs)
        except Exception as error:
            self._refuse(f"tracing it fails: {type(error).__name__}: {_first_line(error)}")
            return False
        return True

    def _refuse(self, reason: str) -> None:
        self.refusal = reason
        self._graph = self._guards = None
        self._on_refusal(reason)

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        size = sum(_bytes(leaf) for leaf in tf.nest.flatten((args, kwargs)))
        if len(self.calls) >= _RECORDED or self._bytes + size > _RECORDED_BYTES:
            self.recording = False
            return
        self._bytes += size
        self.calls.append(tf.nest.map_structure(_kept, (args, kwargs)))


def _is_tensor(leaf: Any) -> bool:
    return leaf is None or tf.is_tensor(leaf)


def _kept(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def _bytes(leaf: Any) -> int:
    if isinstance(leaf, np.ndarray):
        return int(leaf.nbytes)
    if tf.is_tensor(leaf) and hasattr(leaf, "shape") and leaf.shape.is_fully_defined():
        return int(np.prod(leaf.shape, dtype=np.int64)) * (leaf.dtype.size or 64)
    return 0


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]
