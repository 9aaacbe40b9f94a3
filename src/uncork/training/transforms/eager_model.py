"""Runs the step of an eager Keras model as a graph, as long as both do the same.

A compiled ``fit`` does in each step what it did when it was traced. Layers, losses, metrics and a
``train_step`` of the user's own may do more in Python, and read what callbacks change between two
steps. So a step is watched before, and what it reads is compared before each call, as for a step of
the user's own (:mod:`uncork.training.loop_step.eager_step`). Validation and predictions stay eager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from uncork.compat.keras3.model_state import given_loss, given_metrics, given_weighted_metrics
from uncork.core.base.errors import describe_error
from uncork.pycode.purity.guards import StateGuards, UnguardedError
from uncork.pycode.purity.observed_call import observe_call


def create_guards(model: Any) -> StateGuards:
    """All that the step of a compiled model reads in Python.

    Raises:
        UnguardedError: It reads what cannot be watched.
    """
    given = given_loss(model), given_metrics(model), given_weighted_metrics(model)
    return StateGuards(model, model.optimizer, *tf.nest.flatten(given))


def check_traceable(model: Any, run_steps: Callable[[], object]) -> tuple[str, str]:
    """Observe some steps of a model that runs eagerly.

    Args:
        model: Built and compiled.
        run_steps: Runs them, op by op.

    Returns:
        Why the step cannot be a graph, ``""`` where it can as far as was seen; and the digest of
        all code of the user's that it runs.
    """
    try:
        guards = create_guards(model)
    except UnguardedError as reason:
        return str(reason), ""
    _, refusal = observe_call(guards, run_steps)
    return refusal, guards.code_digest


@contextmanager
def train_as_graph(model: Any, on_refusal: Callable[[str], None]) -> Iterator[None]:
    """Let ``fit`` run the training step of an eager model as a graph, as long as that is the same.

    Its first step builds what is not built yet, its second one is watched; from then on it is a
    graph, and what it reads is compared before each call. Where any of it changes, it goes on op by
    op.

    Args:
        model: Runs eagerly, and goes on to do so for everything but training.
        on_refusal: Told why it goes on op by op.
    """
    training = _Training(model, on_refusal)
    make = model.make_train_function

    def make_train_function(force: bool = False) -> Any:
        if model.train_function is None or force:
            make(force=True)
            training.eagerly = model.train_function
            model.train_function = training
        return model.train_function

    training.make = make
    object.__setattr__(model, "make_train_function", make_train_function)
    try:
        yield
    finally:
        object.__delattr__(model, "make_train_function")
        model.train_function = None


class _Training:
    """Stands in for a model's ``train_function``."""

    make: Callable[..., Any]
    eagerly: Callable[[Any], Any]

    def __init__(self, model: Any, on_refusal: Callable[[str], None]) -> None:
        self._model = model
        self._on_refusal = on_refusal
        self._built = self._refused = False
        self._guards: StateGuards | None = None
        self._graph: Callable[[Any], Any] | None = None

    def __call__(self, iterator: Any) -> Any:
        if self._refused or not self._built:
            self._built = True
            return self.eagerly(iterator)
        if self._guards is None:
            return self._watched(iterator)
        changed = self._guards.find_change()
        if changed is not None:
            self._refuse(f"'{changed}' has changed")
            return self.eagerly(iterator)
        if self._graph is None:
            self._graph = self._made()
        try:
            return self._graph(iterator)
        except (tf.errors.OpError, StopIteration):
            raise  # the step's own, or the end of the data
        except Exception as error:  # nothing was run: no batch was taken
            self._refuse(f"tracing the step fails: {describe_error(error)}")
        return self.eagerly(iterator)

    def _watched(self, iterator: Any) -> Any:
        try:
            self._guards = create_guards(self._model)
        except UnguardedError as reason:
            self._refuse(str(reason))
            return self.eagerly(iterator)
        found, refusal = observe_call(self._guards, lambda: self.eagerly(iterator))
        if refusal:
            self._refuse(refusal)
        return found

    def _made(self) -> Any:
        """Keras makes its graph; the model itself stays eager."""
        model = self._model
        model.run_eagerly = False
        try:
            self.make(force=True)
            return model.train_function
        finally:
            model.train_function = self
            model.run_eagerly = True

    def _refuse(self, reason: str) -> None:
        self._refused, self._graph = True, None
        self._on_refusal(reason)
