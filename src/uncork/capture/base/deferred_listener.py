"""A listener that is made at the first training call, because making it imports TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from uncork.capture.base.listener import FitCall, LoopCall, PassThroughListener, StepCall

L = TypeVar("L", bound=PassThroughListener)


class DeferredListener(PassThroughListener, Generic[L]):
    """Stands in for a listener until the script has imported TensorFlow itself.

    Args:
        make: Imports what it needs and gives the listener.
        source_lines: Datasets shall remember the line that made them.
        loops: Custom loops shall be watched.
        refuses_foreign: A ``fit`` that is not Keras 3 on TensorFlow ends the script.
        accepts_jax: One on Keras's jax backend is told, too.

    Attributes:
        created_listener: The listener, None while no training call was reached.
    """

    def __init__(
        self,
        make: Callable[[], L],
        *,
        source_lines: bool,
        loops: bool,
        refuses_foreign: bool = True,
        accepts_jax: bool = False,
    ) -> None:
        self.created_listener: L | None = None
        self._make = make
        self.wants_source_lines = source_lines
        self.wants_loops = loops
        self.refuses_foreign = refuses_foreign
        self.accepts_jax = accepts_jax

    @property
    def _listener(self) -> L:
        if self.created_listener is None:
            self.created_listener = self._make()
            self.created_listener.run_guarded = self.run_guarded
        return self.created_listener

    def fit(self, call: FitCall) -> Any:
        """The real listener's answer."""
        return self._listener.fit(call)

    def dataset(self, dataset: Any, at: str) -> Any:
        """The real listener's answer."""
        return self._listener.dataset(dataset, at)

    def iterator(self, dataset: Any, iterate: Callable[[Any], Any]) -> Any:
        """The real listener's answer."""
        return self._listener.iterator(dataset, iterate)

    def loop(self, call: LoopCall, first: Iterator[Any]) -> Iterator[Any]:
        """The real listener's answer."""
        found = self._listener.loop(call, first)
        self.wants_steps = self._listener.wants_steps
        return found

    def step_loop(self, call: StepCall) -> Callable[[StepCall], Any] | None:
        """The real listener's answer."""
        found = self._listener.step_loop(call)
        self.wants_steps = self._listener.wants_steps
        return found

    def step(self, function: Any) -> None:
        """Told the real listener."""
        self._listener.step(function)
