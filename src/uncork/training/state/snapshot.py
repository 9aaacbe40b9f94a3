"""The whole training state of a Keras model, taken and given back bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from uncork.compat.keras3.layers import flatten_layers
from uncork.compat.random_state import random_state, set_random_state
from uncork.compat.tf.eager_context import async_wait

_FLAGS = (
    "stop_training",
    "steps_per_execution",
    "run_eagerly",
    "jit_compile",
    "train_function",
    "test_function",
    "predict_function",
    "history",
)
# Attributes in which TensorFlow keeps what it tracks of others.
_TRACKING = "_self_"
# NumPy files bfloat16 and other young types under "V".
FLOAT_KINDS = "fV"


class Snapshot:
    """Weights, optimizer, metrics, seed generators, trainer flags and random states.

    Taking one builds the optimizer's slots, which ``fit`` would do itself on its first step.

    Args:
        model: Built and compiled.

    Example:
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        >>> model.compile("adam", "mse")
        >>> before = model.get_weights()[0].copy()
        >>> with Snapshot(model).restore_at_end():
        ...     _ = model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)
        >>> bool((model.get_weights()[0] == before).all())
        True
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        optimizer = model.optimizer
        if optimizer is not None and not optimizer.built:
            optimizer.build(model.trainable_variables)
        self._optimizer = optimizer
        self._values = [(v, tf.identity(_resource(v))) for v in training_variables(model)]
        self._flags = {k: getattr(model, k) for k in _FLAGS if hasattr(model, k)}
        self._random = random_state()

    @property
    def size_bytes(self) -> int:
        """Of all values in it."""
        return sum(value.shape.num_elements() * value.dtype.size for _, value in self._values)

    @cached_property
    def non_finite_positions(self) -> frozenset[int]:
        """Positions of :func:`read_weights` that had infinite values from the beginning."""
        values = {id(variable): value.numpy() for variable, value in self._values}
        return find_non_finite(
            [values.get(id(each), np.zeros(())) for each in _compared(self.model)]
        )

    def restore(self) -> None:
        """Give everything back. Safe to call more than once."""
        if self.model.optimizer is not self._optimizer:
            self.model.optimizer = self._optimizer
        self.restore_values()
        for name, value in self._flags.items():
            setattr(self.model, name, value)
        set_random_state(self._random)

    def restore_values(self) -> None:
        """Give back only what training changes: the start of a fresh run of the same model."""
        for variable, value in self._values:
            variable.assign(value)
        async_wait()  # another process's device lets a function begin before that

    @contextmanager
    def restore_at_end(self) -> Iterator[Snapshot]:
        """Restore at the end, whatever happens in between."""
        try:
            yield self
        finally:
            self.restore()


def training_variables(model: Any) -> list[Any]:
    """Every variable that training may change, each once: weights, seeds, optimizer, metrics."""
    found = [
        *model.variables,
        *model.metrics_variables,
        *(v for _, v in find_untracked_variables(model)),
    ]
    for optimizer in find_optimizers(model):
        found += optimizer.variables
    return list({id(v): v for v in found}.values())


def read_training_state(model: Any) -> list[Any]:
    """Values of all variables that training may change, for another process with this model."""
    return [tf.identity(_resource(v)).numpy() for v in training_variables(model)]


def set_training_state(model: Any, state: list[Any]) -> None:
    """Set what :func:`read_training_state` told.

    Raises:
        ValueError: It is of another model.
    """
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    for variable, value in zip(training_variables(model), state, strict=True):
        variable.assign(value)


def find_untracked_variables(model: Any) -> list[tuple[str, Any]]:
    """Variables of TensorFlow's that layers hold, with the attribute's name; Keras knows them not.

    Also those of its generators of random numbers, and of other modules that are no layers.

    Example:
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        >>> model.seen = tf.Variable(0)
        >>> [name for name, _ in find_untracked_variables(model)]
        ['seen']
    """
    found: dict[int, tuple[str, Any]] = {}
    for layer in flatten_layers(model):
        for name, value in vars(layer).items():
            if name.startswith(_TRACKING):
                continue
            parts = value.values() if isinstance(value, dict) else value
            for part in parts if isinstance(value, dict | list | tuple) else [value]:
                for variable in _variables_of(part):
                    found.setdefault(id(variable), (name, variable))
    return list(found.values())


def _variables_of(part: Any) -> Sequence[Any]:
    if isinstance(part, tf.Variable):
        return (part,)
    if isinstance(part, tf.random.Generator):
        return (part.state,)
    return tuple(part.variables) if isinstance(part, tf.Module) else ()


def find_optimizers(model: Any) -> list[Any]:
    """The compiled one, and those that a model with its own ``train_step`` keeps as attributes."""
    held = [getattr(model, "optimizer", None)]
    for value in vars(model).values():
        parts = value.values() if isinstance(value, dict) else value
        held += parts if isinstance(value, dict | list | tuple) else [value]
    found = [each for each in held if isinstance(each, keras.optimizers.Optimizer)]
    return list({id(each): each for each in found}.values())


def read_weights(model: Any) -> list[np.ndarray[Any, Any]]:
    """Weights and optimizer slots as arrays: what two exact trainings must agree on."""
    return [tf.identity(_resource(v)).numpy() for v in _compared(model)]


def find_learned_positions(model: Any) -> frozenset[int]:
    """Positions, in :func:`read_weights`, of those that are to learn, and of their slots."""
    slots = (v for optimizer in find_optimizers(model) for v in optimizer.variables if v.shape)
    asked = set(map(id, [*model.trainable_variables, *slots]))
    return frozenset(n for n, each in enumerate(_compared(model)) if id(each) in asked)


def _compared(model: Any) -> tuple[Any, ...]:
    slots = [v for optimizer in find_optimizers(model) for v in optimizer.variables]
    return (*model.weights, *slots, *(v for _, v in find_untracked_variables(model)))


def _resource(variable: Any) -> Any:
    """Of a variable of Keras's, TensorFlow's."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def find_non_finite(values: Sequence[np.ndarray[Any, Any]]) -> frozenset[int]:
    """Positions of values in which a number is infinite, or none.

    Example:
        >>> find_non_finite([np.ones(2), np.array([1.0, -np.inf]), np.array(["a"])])
        frozenset({1})
    """
    floats = [
        (n, v.astype(np.float64)) for n, v in enumerate(values) if v.dtype.kind in FLOAT_KINDS
    ]
    return frozenset(n for n, value in floats if not np.isfinite(value).all())
