"""Weights updated by one kernel each, only while a step of a user's own is traced.

A graph keeps the kernels that the optimizer's update was traced to. So the optimizer itself stays
as it is: for whoever calls it elsewhere, saves it, or goes on with it.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import keras
import tensorflow as tf

from uncork.compat.keras3.optimizer import STRATEGY_UPDATE, owner_of
from uncork.compat.tf.functions import has_traces, traces
from uncork.training.optimizer.fused_updates import count_fusable_weights, update_with_kernels
from uncork.training.tracing.scoped_override import ScopedOverride, wrap_traced

_NONE: Final = "TensorFlow has no kernel for the optimizer that updates its weights"


class TracedUpdates:
    """Updates of weights by one step: those that became a kernel each.

    Attributes:
        fused_count: How many.

    Example:
        >>> weight = keras.Variable([1.0, 2.0])
        >>> optimizer = keras.optimizers.Adam(0.5)
        >>> optimizer.build([weight])
        >>> updates = TracedUpdates()
        >>> step = tf.function(updates.wrap_function(lambda g: optimizer.apply([g])))
        >>> _ = step(tf.constant([1.0, -1.0]))
        >>> weight.numpy().round(3).tolist(), updates.fused_count
        ([0.5, 2.5], 1)
    """

    def __init__(self) -> None:
        self.fused_count = 0
        self._as_ever = False

    @property
    def refusal_reason(self) -> str:
        """Why there is none, as part of a sentence; ``""`` where none was met either.

        A step that gathers gradients updates in some of its traces only.
        """
        return _NONE if self._as_ever and not self.fused_count else ""

    def wrap_function(self, python: Callable[..., Any]) -> Callable[..., Any]:
        """A Python function whose optimizers update so whenever it is traced.

        Args:
            python: What a ``tf.function`` is made of.
        """
        return wrap_traced(python, lambda: _place.use_handler(self))

    def update(self, optimizer: Any, strategy: Any, pairs: Any, rate: Any) -> None:
        """In the place of what Keras does to weights."""
        as_ever = functools.partial(_place.original, optimizer)
        done = update_with_kernels(optimizer, as_ever, strategy, pairs, rate)
        self.fused_count += done
        self._as_ever = self._as_ever or not done


def _update(optimizer: Any, strategy: Any, pairs: Any, rate: Any) -> None:
    updates: TracedUpdates | None = _place.handler
    if updates is None or not tf.inside_function():
        _place.original(optimizer, strategy, pairs, rate)
    else:
        updates.update(optimizer, strategy, pairs, rate)


def _owner() -> Any:
    """Of the optimizers' method; on its backend for TensorFlow alone they have it."""
    return owner_of(keras.optimizers.Optimizer, STRATEGY_UPDATE)


_place = ScopedOverride(_owner, STRATEGY_UPDATE, tf.autograph.experimental.do_not_convert(_update))


def count_fusable_weights_in(function: Any) -> int:
    """How many weights that a step trains one kernel each could update.

    Args:
        function: A ``tf.function`` that was called before, or what stands in for one.
    """
    while not has_traces(function) and hasattr(function, "_function"):
        function = function._function  # that hands it arguments in another form
    held = set[int]()
    for traced in traces(function):
        with suppress(Exception):  # of a model that is gone
            held |= {id(variable) for variable in traced.variables}
    if not held:
        return 0
    # Their type is asked, not they: proxies of all kinds are among these objects.
    kind = keras.optimizers.Optimizer
    known = [each for each in gc.get_objects() if issubclass(type(each), kind) and each.built]
    its_own = (each for each in known if any(id(slot.value) in held for slot in each.variables))
    return sum(map(count_fusable_weights, its_own))
