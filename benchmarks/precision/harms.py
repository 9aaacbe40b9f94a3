"""What is done to a training on purpose, in several sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import tensorflow as tf

from uncork.training.run.step_settings import StepSettings

_MANTISSA = 23

# Does it to the model inside its block; what is traced there keeps it.
Harm = Callable[[Any], AbstractContextManager[None]]


class Harmed(StepSettings):
    """The user's own settings, and something that they do not say.

    Args:
        model: Built and compiled.
        harm: Done to it while its step is traced and run.
    """

    def __init__(self, model: Any, harm: Harm) -> None:
        super().__init__(model)
        self._harm = harm

    @contextmanager
    def active(self) -> Iterator[None]:
        """Run the model this way inside the block."""
        with self._harm(self.model), super().active():
            yield


def coarse_layers(bits: int) -> Harm:
    """What each layer returns keeps so many bits; gradients pass as if it kept all."""

    def call_of(call: Any) -> Any:
        def coarse(*args: Any, **kwargs: Any) -> Any:
            returned = call(*args, **kwargs)
            return tf.nest.map_structure(lambda x: _straight_through(x, bits), returned)

        return coarse

    @contextmanager
    def harm(model: Any) -> Iterator[None]:
        leaves = [layer for layer in model._flatten_layers() if not list(_inner(layer))]
        with ExitStack() as stack:
            for layer in leaves:
                stack.enter_context(_exchanged(layer, "call", call_of))
            yield

    return harm


def coarse_gradients(bits: int) -> Harm:
    """The optimizer is given gradients of so many bits."""

    def apply_of(apply: Any) -> Any:
        def coarse(grads: Sequence[Any], weights: Any = None) -> None:
            apply([_coarse_gradient(g, bits) for g in grads], weights)

        return coarse

    return lambda model: _exchanged(model.optimizer, "apply", apply_of)


def coarse_weights(bits: int) -> Harm:
    """After each step the weights keep so many bits: smaller updates are lost."""

    def apply_of(apply: Any) -> Any:
        def coarse(grads: Sequence[Any], weights: Any = None) -> None:
            apply(grads, weights)
            for weight in weights:
                weight.assign(rounded(weight.value, bits))

        return coarse

    return lambda model: _exchanged(model.optimizer, "apply", apply_of)


def faster_learning(factor: float) -> Harm:
    """Another learning rate."""

    @contextmanager
    def harm(model: Any) -> Iterator[None]:
        rate = model.optimizer.learning_rate
        before = float(rate)
        rate.assign(before * factor)
        try:
            yield
        finally:
            rate.assign(before)

    return harm


def rounded(x: Any, bits: int) -> Any:
    """To the nearest float32 with so many bits behind the leading one; bfloat16 has 7.

    Example:
        >>> rounded(tf.constant([1.0, 1.1, -3.3]), 2).numpy().tolist()
        [1.0, 1.0, -3.5]
    """
    dropped = _MANTISSA - bits
    whole = tf.bitcast(x, tf.int32) + (1 << (dropped - 1))
    return tf.bitcast(tf.bitwise.bitwise_and(whole, -(1 << dropped)), tf.float32)


def _straight_through(x: Any, bits: int) -> Any:
    if not tf.is_tensor(x) or x.dtype != tf.float32:
        return x
    return x + tf.stop_gradient(rounded(x, bits) - x)


def _coarse_gradient(gradient: Any, bits: int) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        values = rounded(gradient.values, bits)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return rounded(gradient, bits)


def _inner(layer: Any) -> Iterator[Any]:
    return (inner for inner in layer._flatten_layers() if inner is not layer)


@contextmanager
def _exchanged(owner: Any, name: str, other_of: Callable[[Any], Any]) -> Iterator[None]:
    """Past all tracking of Keras's, which would count what is set among the parts of a model."""
    vars(owner)[name] = other_of(getattr(owner, name))
    try:
        yield
    finally:
        del vars(owner)[name]
