"""A Keras model that runs eagerly: may its step be a graph, and is it still the one that was made?

A compiled ``fit`` does in each step what it did when it was traced. Layers, losses, metrics and a
``train_step`` of the user's own may do more in Python, and read what callbacks change between two
steps. So one step is watched before, and what it reads is compared before each call, as for a step
of the user's own (:mod:`uncork.step.eager_step`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import tensorflow as tf

from uncork.watch import Guards, UnguardedError, watched

# What Keras calls in each batch of a ``fit``, and what makes it.
_FUNCTIONS: Final = {"make_train_function": "train_function", "make_test_function": "test_function"}


def guards_of(model: Any) -> Guards:
    """All that the step of a compiled model reads in Python.

    Raises:
        UnguardedError: It reads what cannot be watched.
    """
    given = (
        getattr(getattr(model, "_compile_loss", None), "_user_loss", None),
        getattr(getattr(model, "_compile_metrics", None), "_user_metrics", None),
        getattr(getattr(model, "_compile_metrics", None), "_user_weighted_metrics", None),
    )
    return Guards(model, model.optimizer, *tf.nest.flatten(given))


def traceable(model: Any, run_steps: Callable[[], object]) -> tuple[str, str]:
    """Watch some steps of a model that runs eagerly.

    Args:
        model: Built and compiled.
        run_steps: Runs them, op by op.

    Returns:
        Why the step cannot be a graph, ``""`` where it can as far as was seen; and the digest of
        all code of the user's that it runs.
    """
    try:
        guards = guards_of(model)
    except UnguardedError as reason:
        return str(reason), ""
    _, refusal = watched(guards, run_steps)
    return refusal, guards.code


@contextmanager
def guarded(model: Any, on_change: Callable[[str], None]) -> Iterator[None]:
    """While a model trains as a graph, go back to op by op where what its step reads changes.

    Args:
        model: Set up to run as a graph; it was to run eagerly.
        on_change: Told what has changed.
    """
    guard = _Guard(model, on_change)
    made = {name: getattr(model, name) for name in _FUNCTIONS}
    for name, make in made.items():
        object.__setattr__(model, name, guard.making(make, _FUNCTIONS[name]))
    try:
        yield
    finally:
        for name in made:
            object.__delattr__(model, name)


class _Guard:
    def __init__(self, model: Any, on_change: Callable[[str], None]) -> None:
        self._model = model
        self._on_change = on_change
        self._guards: Guards | None = None
        self._calls = 0

    def making(self, make: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Makes a function of the model's, and puts one in its place that looks first."""
        model = self._model

        def make_guarded(force: bool = False) -> Any:
            if getattr(model, name) is None or force:
                make(force)
                function = getattr(model, name)

                def look_and_call(iterator: Any) -> Any:
                    return (function if self._holds() else self._eager(make, name))(iterator)

                setattr(model, name, function if model.run_eagerly else look_and_call)
            return getattr(model, name)

        return make_guarded

    def _holds(self) -> bool:
        """The first call builds what is not built yet; what it leaves is what counts."""
        self._calls += 1
        if self._calls < 2 or self._model.run_eagerly:
            return not self._model.run_eagerly
        try:
            if self._guards is None:
                self._guards = guards_of(self._model)
            changed = self._guards.changed()
        except UnguardedError as reason:
            changed = str(reason)
        if changed is not None:
            self._on_change(changed)
            self._model.run_eagerly = True
        return changed is None

    def _eager(self, make: Callable[..., Any], name: str) -> Any:
        make(True)
        return getattr(self._model, name)
