"""Many small weights updated as one vector, by the optimizer's own update.

The update of a weight is a dozen kernels whatever its size, and of a small weight to start them
takes longer than to compute them. An elementwise update does not ask which weight an element is of:
run on all small weights laid end to end it does the same arithmetic on the same numbers.

While that is in force, the optimizer's state of those weights lies end to end as well. It is laid
back whenever somebody may look: at the end of an epoch, before a validation, at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from uncork.compat.keras3.optimizer import (
    BACKEND_UPDATE,
    NO_STATE,
    WEIGHT_NUMBERS,
    method_of,
    weight_key,
    weights_of,
)
from uncork.core.base.errors import EditRefused
from uncork.training.tracing.model_attribute import override_attribute

# Elements. A larger weight takes its time in kernels, not before them, and is not worth copying.
_SMALL: Final = 1 << 16
# Fewer weights than this gain less than laying them end to end costs.
_FEW: Final = 8
_ELEMENTWISE: Final = (
    keras.optimizers.Adam,
    keras.optimizers.AdamW,
    keras.optimizers.Nadam,
    keras.optimizers.Adamax,
    keras.optimizers.Adagrad,
    keras.optimizers.Adadelta,
    keras.optimizers.RMSprop,
    keras.optimizers.Lion,
    keras.optimizers.Ftrl,
    keras.optimizers.SGD,
)
_SAVES: Final = "save_own_variables"
_TRAINING: Final = ("train_on_batch", "fit")


def count_small_weights(optimizer: Any) -> int:
    """How many weights could be updated as one; 0 where the optimizer's update does not allow it.

    Args:
        optimizer: Built.

    Example:
        >>> layers = [keras.layers.Dense(4) for _ in range(6)]
        >>> model = keras.Sequential([keras.Input((4,)), *layers])
        >>> adam = keras.optimizers.Adam()
        >>> adam.build(model.trainable_variables)
        >>> count_small_weights(adam)
        12
    """
    if flat_update_refusal(optimizer) is not None:
        return 0
    count = sum(_is_small(weight) for weight in weights_of(optimizer))
    return count if count >= _FEW else 0


def flat_update_refusal(optimizer: Any) -> str | None:
    """Why an optimizer cannot update several weights as one vector; None where it can."""
    if type(optimizer) not in _ELEMENTWISE:
        return (
            f"Uncork does not know whether {type(optimizer).__name__} updates each element "
            "independently"
        )
    if type(optimizer) is keras.optimizers.SGD and not optimizer.momentum:
        return "SGD without momentum already updates each weight with one kernel"
    if optimizer.use_ema or optimizer.gradient_accumulation_steps:
        return (
            "the optimizer averages weights (use_ema) or accumulates gradients "
            "(gradient_accumulation_steps)"
        )
    return None


class FlatGroup:
    """Lets an optimizer update small weights as one vector, and large weights as before.

    Which weights these are is known when the step is traced: those with a dense gradient.

    Args:
        model: Built and compiled.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._optimizer = model.optimizer
        self._as_ever = method_of(self._optimizer, BACKEND_UPDATE)
        self._weights: list[Any] = []
        self._made_for: Any = None
        self._flat: Any = None
        self._slots: dict[str, Any] = {}
        self._held: dict[str, Any] = {}
        # Where Keras has it, the state is as far as the weights.
        self._is_back = True
        self._scatter = tf.function(self._scatter_all, autograph=False)

    @contextmanager
    def active(self) -> Iterator[None]:
        """What is traced inside updates them as one; their state is laid back at the end."""
        if not self._optimizer.built:  # as the first step would, where state has no value yet
            self._optimizer.build(self._model.trainable_variables)
        own = {BACKEND_UPDATE: self._update, _SAVES: self._saving(getattr(self._optimizer, _SAVES))}
        for name, method in own.items():
            object.__setattr__(self._optimizer, name, method)
        try:
            if self._flat is not None:
                self._lend()
                self.gather()
            with ExitStack() as stack:
                for name in _TRAINING:
                    inner = self._inner(getattr(self._model, name))
                    stack.enter_context(override_attribute(self._model, name, inner))
                yield
        finally:
            # First the optimizer is itself again, whatever becomes of the state.
            for name in own:
                object.__delattr__(self._optimizer, name)
            if self._flat is not None:
                vars(self._optimizer).update(self._held)
                self.scatter()

    def gather(self) -> None:
        """Lay the state of the small weights end to end."""
        for name, flat in self._slots.items():
            _lay(flat.value, [slot.value for slot in self._of_weights(name)])
        self._is_back = self._flat is None

    def scatter(self) -> None:
        """Lay it back, to where Keras has it."""
        if self._flat is not None:
            self._scatter()
            self._is_back = True

    def _saving(self, save: Callable[[Any], None]) -> Callable[[Any], None]:
        """For who saves in the middle of an epoch, from a handler of a signal, say."""

        def save_own_variables(store: Any) -> None:
            if not self._is_back:
                self._scatter()
            save(store)

        return save_own_variables

    def _inner(self, train: Callable[..., Any]) -> Callable[..., Any]:
        """For steps that a callback makes between those of the ``fit``."""

        @functools.wraps(train)
        def trained(*args: Any, **kwargs: Any) -> Any:
            was_back = self._is_back
            if not was_back:  # within another one, to which no callback of ours belongs
                self.scatter()
            self.gather()
            try:
                return train(*args, **kwargs)
            finally:
                self.scatter()
                self._is_back = was_back  # the other one trains on from what lies end to end

        return trained

    def _scatter_all(self) -> None:
        for name, flat in self._slots.items():
            _lay_back(flat.value, [slot.value for slot in self._of_weights(name)])

    def _update(self, gradients: Sequence[Any], weights: Sequence[Any], rate: Any) -> None:
        """In the place of the optimizer's own, each time that a step is traced."""
        pairs = list(zip(gradients, weights, strict=True))
        small = [(g, w) for g, w in pairs if _is_small(w) and not isinstance(g, tf.IndexedSlices)]
        with tf.init_scope():
            known = self._knows([weight for _, weight in small])
        if not known:
            self._as_ever(gradients, weights, rate)
            return
        others = [(g, w) for g, w in pairs if all(w is not weight for _, weight in small)]
        values = [weight.value for _, weight in small]
        self._flat.value.assign(_end_to_end(values), read_value=False)
        gradient = _end_to_end([tf.cast(g, tf.float32) for g, _ in small])
        self._as_ever(
            [*(g for g, _ in others), gradient], [*(w for _, w in others), self._flat], rate
        )
        _lay_back(self._flat.value, values)

    def _knows(self, weights: list[Any]) -> bool:
        """Whether these are the small weights that are updated as one; the first ones become it.

        Raises:
            EditRefused: A step with two sets of weights for one optimizer.
        """
        if self._flat is not None and self._is_traced_anew():  # where layers were frozen, say
            vars(self._optimizer).update(self._held)
            self.scatter()
            self._flat, self._slots = None, {}
            self._scatter = tf.function(self._scatter_all, autograph=False)
        if self._flat is None:
            if len(weights) < _FEW:
                return False
            self._make(weights)
        if [id(weight) for weight in weights] != [id(weight) for weight in self._weights]:
            raise EditRefused(
                "the step updates other weights than in its first trace",
                f"the same {len(self._weights)} small weights",
                "run the plan without flat_updates",
            )
        return True

    def _is_traced_anew(self) -> bool:
        """The user has Keras make its training function again: what was traced before is gone."""
        return self._model.train_function is not self._made_for

    def _make(self, weights: list[Any]) -> None:
        """The vector of all weights, and one of each kind of state."""
        optimizer, size = self._optimizer, sum(_size(weight) for weight in weights)
        self._weights, self._made_for = weights, self._model.train_function
        self._flat = _vector(size)
        self._slots = {name: _vector(size) for name in _slot_lists(optimizer)}
        self._lend()
        self.gather()

    def _lend(self) -> None:
        """Make the vector known to the optimizer as one more of its weights, for a while.

        Past Keras's and TensorFlow's tracking: it is nothing to save.
        """
        optimizer = self._optimizer
        names = (*self._slots, WEIGHT_NUMBERS)
        self._held = {name: vars(optimizer)[name] for name in names}
        count = len(weights_of(optimizer))
        key = weight_key(optimizer, self._flat)
        for name, flat in self._slots.items():
            object.__setattr__(optimizer, name, [*self._held[name], flat])
        object.__setattr__(optimizer, WEIGHT_NUMBERS, {**self._held[WEIGHT_NUMBERS], key: count})

    def _of_weights(self, name: str) -> list[Any]:
        """The state of the small weights as Keras has it."""
        slots, places = self._held[name], self._held[WEIGHT_NUMBERS]
        return [slots[places[weight_key(self._optimizer, weight)]] for weight in self._weights]


def wrap_callbacks(group: FlatGroup, callbacks: Any) -> list[Any]:
    """The user's callbacks between two of ours, so that they find the state where Keras has it.

    Args:
        group: In force.
        callbacks: As given to ``fit``.

    Raises:
        EditRefused: Keras would not let ours be first.
    """
    if isinstance(callbacks, keras.callbacks.CallbackList):
        raise EditRefused(
            "fit receives a CallbackList", "a list of callbacks", "pass the callbacks as a list"
        )
    listed = (
        list(callbacks)
        if isinstance(callbacks, list | tuple)
        else [callbacks] * (callbacks is not None)
    )
    return [_Before(group), *listed, _After(group)]


class _Before(keras.callbacks.Callback):  # type: ignore[misc]
    """First of all callbacks, where they may look at the optimizer."""

    def __init__(self, group: FlatGroup) -> None:
        super().__init__()
        self._scatter = group.scatter

    def on_test_begin(self, logs: Any = None) -> None:
        self._scatter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._scatter()

    def on_train_end(self, logs: Any = None) -> None:
        self._scatter()


class _After(keras.callbacks.Callback):  # type: ignore[misc]
    """Last of all callbacks: what they wrote counts."""

    def __init__(self, group: FlatGroup) -> None:
        super().__init__()
        self._gather = group.gather

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._gather()

    def on_test_end(self, logs: Any = None) -> None:
        self._gather()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._gather()

    def on_train_end(self, logs: Any = None) -> None:
        self._gather()


def _slot_lists(optimizer: Any) -> list[str]:
    """Where an optimizer keeps its state: lists of one variable for each weight."""
    count = len(weights_of(optimizer))
    return [
        name
        for name, value in vars(optimizer).items()
        if isinstance(value, list)
        and name not in NO_STATE
        and len(value) == count
        and all(isinstance(each, keras.Variable) for each in value)
    ]


def _is_small(weight: Any) -> bool:
    return (
        isinstance(weight, keras.Variable) and weight.dtype == "float32" and _size(weight) <= _SMALL
    )


def _size(weight: Any) -> int:
    return int(np.prod(weight.shape))


def _vector(size: int) -> Any:
    return keras.Variable(np.zeros(size, np.float32), dtype="float32", trainable=False)


def _end_to_end(parts: Sequence[Any]) -> Any:
    return tf.concat([tf.reshape(part, (-1,)) for part in parts], 0)


def _lay(flat: Any, parts: Sequence[Any]) -> None:
    flat.assign(_end_to_end(parts), read_value=False)


def _lay_back(flat: Any, parts: Sequence[Any]) -> None:
    sizes = [part.shape.num_elements() for part in parts]
    for piece, part in zip(tf.split(flat, sizes), parts, strict=True):
        part.assign(tf.reshape(piece, part.shape), read_value=False)
