"""The loss of a step of a user's own scaled for float16, only while the step is traced.

A graph keeps what its gradients were made of. So the step's tape starts with the scale where its
author's starts with one, what it gives is divided again before anybody sees it, and its optimizer
leaves a step out in which one is not finite. That is what Keras's ``LossScaleOptimizer`` does
for a step that asks it to, with its numbers; here nobody has to ask, and no optimizer is wrapped.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import keras
import tensorflow as tf

from uncork.step.giving_way import GivingWay, while_traced

# As Keras has them.
_FIRST: Final = 2.0**15
_GOOD_STEPS: Final = 2_000
_APPLY: Final = "apply"


class Scaling:
    """Scales the loss of one step, and goes on from call to call.

    The scale is nothing to save: whoever saves the optimizer finds it as it always was.

    Example:
        >>> weight = keras.Variable([1.0])
        >>> optimizer = keras.optimizers.SGD(0.5)
        >>> optimizer.build([weight])
        >>> def step(x):
        ...     with tf.GradientTape() as tape:
        ...         loss = tf.reduce_sum(weight * x)
        ...     gradients = tape.gradient(loss, [weight])
        ...     optimizer.apply(gradients, [weight])
        ...     return gradients[0]
        >>> scaling = Scaling()
        >>> scaled = tf.function(scaling.in_step(step))
        >>> scaled(tf.constant([3.0])).numpy().tolist(), weight.numpy().tolist()
        ([3.0], [-0.5])
        >>> scaled(tf.constant([1e37])).numpy().tolist(), weight.numpy().tolist()
        ([inf], [-0.5])
        >>> scaling.why_none, scaling.scale
        ('', 16384.0)
    """

    def __init__(self) -> None:
        self._gradients = self._applied = 0
        self._against = ""
        self._variables: tuple[Any, Any] | None = None

    @property
    def why_none(self) -> str:
        """Why the loss cannot be scaled, as part of a sentence; ``""`` where it can."""
        if self._against:
            return self._against
        if not self._gradients:
            return "it takes no gradients of a tf.GradientTape's"
        return "" if self._applied else "no optimizer of Keras's applies its gradients"

    @property
    def scale(self) -> float:
        """By what gradients are multiplied at present."""
        return float(self._variables[0]) if self._variables else _FIRST

    def start(self) -> None:
        """Begin at the first scale again."""
        if self._variables is not None:
            scale, good = self._variables
            scale.assign(_FIRST)
            good.assign(0)

    def in_step(self, python: Callable[..., Any]) -> Callable[..., Any]:
        """A Python function whose loss is scaled whenever it is traced.

        Args:
            python: What a ``tf.function`` is made of.
        """
        return while_traced(python, self._in_force)

    @contextmanager
    def _in_force(self) -> Iterator[None]:
        if self._variables is None:
            with tf.init_scope():
                number = {"trainable": False, "dtype": tf.float32}
                self._variables = (tf.Variable(_FIRST, **number), tf.Variable(0, trainable=False))
        with _gradient_place.to(self), _apply_place.to(self):
            yield

    def gradient(
        self, tape: Any, target: Any, sources: Any, output_gradients: Any, others: dict[str, Any]
    ) -> Any:
        """In the place of what a tape gives."""
        self._gradients += 1
        scale, _ = self._state()
        seeds = [
            tf.cast(scale, part.dtype) * (tf.ones_like(part) if given is None else given)
            for part, given in zip(*_flat(target, output_gradients), strict=True)
        ]
        given = tf.nest.pack_sequence_as(target, seeds)
        found = _gradient_place.original(tape, target, sources, output_gradients=given, **others)
        return tf.nest.map_structure(lambda each: _divided(each, scale), found)

    def apply(self, optimizer: Any, gradients: Any, weights: Any) -> None:
        """In the place of an optimizer's own, which is not called where something is not finite."""
        self._against = self._against or _why_not(optimizer)
        self._applied += 1
        scale, good = self._state()
        gradients = list(gradients)
        if not optimizer.built:
            with tf.init_scope():
                optimizer.build(weights)
        finite = tf.reduce_all([_finite(each) for each in gradients if each is not None])

        def applied() -> Any:
            _apply_place.original(optimizer, gradients, weights)
            steps = good + 1
            grows = steps >= _GOOD_STEPS
            good.assign(tf.where(grows, 0, steps))
            return scale.assign(tf.where(grows, 2.0 * scale, scale))

        def left_out() -> Any:
            good.assign(0)
            return scale.assign(scale / 2.0)

        tf.cond(finite, applied, left_out)

    def _state(self) -> tuple[Any, Any]:
        assert self._variables is not None
        return self._variables


def _why_not(optimizer: Any) -> str:
    kind = keras.optimizers.LossScaleOptimizer
    # Their type is asked, not they: proxies of all kinds are among these objects.
    scaling = [each for each in gc.get_objects() if issubclass(type(each), kind)]
    if any(each.inner_optimizer is optimizer for each in scaling):
        return "its optimizer scales the loss already"
    if optimizer.loss_scale_factor is not None:
        return "its optimizer scales the loss by a factor of its own: loss_scale_factor is set"
    if optimizer.gradient_accumulation_steps:
        return "one gradient that is not finite would spoil those it is added to"
    return ""


def _flat(target: Any, output_gradients: Any) -> tuple[list[Any], list[Any]]:
    targets = [tf.convert_to_tensor(part) for part in tf.nest.flatten(target)]
    if output_gradients is None:
        return targets, [None] * len(targets)
    return targets, tf.nest.flatten(output_gradients)


def _divided(gradient: Any, scale: Any) -> Any:
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = _divided(gradient.values, scale)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient / tf.cast(scale, gradient.dtype)


def _finite(gradient: Any) -> Any:
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    return tf.reduce_all(tf.math.is_finite(values))


def _gradient(
    tape: Any, target: Any, sources: Any, output_gradients: Any = None, **others: Any
) -> Any:
    scaling: Scaling | None = _gradient_place.answering
    if scaling is None or not tf.inside_function():
        return _gradient_place.original(tape, target, sources, output_gradients, **others)
    return scaling.gradient(tape, target, sources, output_gradients, others)


def _apply(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
    scaling: Scaling | None = _apply_place.answering
    if scaling is None or not tf.inside_function():
        return _apply_place.original(optimizer, grads, trainable_variables)
    return scaling.apply(optimizer, grads, trainable_variables)


def _owner() -> Any:
    """Of the optimizers' method."""
    return next(each for each in keras.optimizers.Optimizer.__mro__ if _APPLY in vars(each))


_do_not_convert = tf.autograph.experimental.do_not_convert
_gradient_place = GivingWay(lambda: tf.GradientTape, "gradient", _do_not_convert(_gradient))
_apply_place = GivingWay(_owner, _APPLY, _do_not_convert(_apply))
