"""The loss of a step of a user's own scaled for float16, only while the step is traced.

A graph keeps what its gradients were made of. So the step's tape starts with the scale where its
author's starts with one, and what it gives is divided again before anybody sees it. Where that is
not finite, nobody sees it either: it is zero then, optimizers leave the step out, and the scale is
halved. So does Keras's ``LossScaleOptimizer`` for a step that asks it to, with these numbers; here
nobody has to ask, no optimizer is wrapped, and what else the step does with its gradients goes on.
"""

from __future__ import annotations

import functools
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import keras
import tensorflow as tf

from uncork.training.tracing.scoped_override import ScopedOverride, wrap_traced

# As Keras has them.
_FIRST: Final = 2.0**15
_GOOD_STEPS: Final = 2_000
_APPLY: Final = "apply"
# How names of functions begin that tf.data calls for each element.
_OF_DATA: Final = ("Dataset_", "reduce_", "tf_data_")


class TracedLossScaler:
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
        >>> scaling = TracedLossScaler()
        >>> scaled = tf.function(scaling.wrap_function(step))
        >>> scaled(tf.constant([3.0])).numpy().tolist(), weight.numpy().tolist()
        ([3.0], [-0.5])
        >>> scaled(tf.constant([1e37])).numpy().tolist(), weight.numpy().tolist()
        ([0.0], [-0.5])
        >>> scaling.refusal_reason, scaling.scale
        ('', 16384.0)
    """

    def __init__(self) -> None:
        self._gradients = self._applied = 0
        self._against = ""
        self._variables: tuple[Any, Any, Any] | None = None
        self._inside = threading.local()

    @property
    def refusal_reason(self) -> str:
        """Why Uncork cannot scale the loss, as part of a sentence; ``""`` where it can.

        Of what was traced last.
        """
        if self._against:
            return self._against
        if not self._gradients:
            return "the step computes no gradients with tf.GradientTape"
        return "" if self._applied else "no Keras optimizer applies the gradients of the step"

    @property
    def scale(self) -> float:
        """By what gradients are multiplied at present."""
        return float(self._variables[0]) if self._variables else _FIRST

    def reset(self) -> None:
        """Begin at the first scale again."""
        if self._variables is not None:
            scale, good, _ = self._variables
            scale.assign(_FIRST)
            good.assign(0)

    def wrap_function(self, python: Callable[..., Any]) -> Callable[..., Any]:
        """A Python function whose loss is scaled whenever it is traced.

        Args:
            python: What a ``tf.function`` is made of.
        """
        # Not while it is traced: a tf.function that made variables in a first trace that failed
        # does nothing when it is called again, and returns None.
        if self._variables is None:
            with tf.init_scope():
                self._variables = tuple(
                    tf.Variable(value, trainable=False) for value in (_FIRST, 0, False)
                )
        return wrap_traced(python, self._in_force)

    @contextmanager
    def _in_force(self) -> Iterator[None]:
        self._gradients = self._applied = 0
        self._against = ""
        scale, good, overflowed = self._state()
        overflowed.assign(False)
        with _gradient_place.use_handler(self), _apply_place.use_handler(self):
            yield
        steps = tf.where(overflowed, 0, good + 1)
        grows = steps >= _GOOD_STEPS
        scale.assign(tf.where(overflowed, scale / 2.0, tf.where(grows, 2.0 * scale, scale)))
        good.assign(tf.where(grows, 0, steps))

    def gradient(
        self, tape: Any, target: Any, sources: Any, output_gradients: Any, unconnected: Any
    ) -> Any:
        """In the place of what a tape gives."""
        original = functools.partial(_gradient_place.original, tape, target, sources)
        parts = tf.nest.flatten(target)
        if getattr(self._inside, "gradient", False):  # what one is made of is scaled already
            return original(output_gradients, unconnected)
        if not all(map(_is_one, parts)):
            self._against = "the step computes a gradient of a ragged or sparse tensor"
            return original(output_gradients, unconnected)
        self._gradients += 1
        if _in_a_loop():
            self._against = "the step computes gradients several times a call, in a TensorFlow loop"
        scale, _, overflowed = self._state()
        given = [None] * len(parts) if output_gradients is None else _flat(output_gradients)
        seeds = [_seed(part, seed, scale) for part, seed in zip(parts, given, strict=True)]
        self._inside.gradient = True
        try:
            found = original(tf.nest.pack_sequence_as(target, seeds), unconnected)
        finally:
            self._inside.gradient = False
        divided = tf.nest.map_structure(lambda each: _divided(each, scale), found)
        values = [_values(each) for each in tf.nest.flatten(divided) if each is not None]
        finite = tf.reduce_all([_finite(each) for each in values if _is_number(each)])
        overflowed.assign(tf.logical_or(overflowed, tf.logical_not(finite)))
        return tf.nest.map_structure(lambda each: _or_zero(each, finite), divided)

    def apply(self, optimizer: Any, gradients: Any, weights: Any) -> None:
        """In the place of an optimizer's own, which is not called where something is not finite."""
        self._against = self._against or _why_not(optimizer)
        self._applied += 1
        _, _, overflowed = self._state()
        gradients = list(gradients)
        if not optimizer.built:
            with tf.init_scope():
                optimizer.build(weights)

        def applied() -> Any:
            _apply_place.original(optimizer, gradients, weights)
            return tf.constant(True)

        tf.cond(overflowed, lambda: tf.constant(False), applied)

    def _state(self) -> tuple[Any, Any, Any]:
        assert self._variables is not None
        return self._variables


def _why_not(optimizer: Any) -> str:
    kind = keras.optimizers.LossScaleOptimizer
    # Their type is asked, not they: proxies of all kinds are among these objects.
    scaling = [each for each in gc.get_objects() if issubclass(type(each), kind)]
    if any(each.inner_optimizer is optimizer for each in scaling):
        return "the optimizer already scales the loss"
    if optimizer.loss_scale_factor is not None:
        return "the optimizer already scales the loss: loss_scale_factor is set"
    if optimizer.gradient_accumulation_steps:
        return "the optimizer accumulates gradients, and one infinite gradient would spoil the sum"
    return ""


def _is_one(part: Any) -> bool:
    """A tensor, or what becomes one; not several."""
    return not isinstance(part, tf.IndexedSlices | tf.RaggedTensor | tf.SparseTensor)


def _flat(structure: Any) -> list[Any]:
    """Also of what is one ``None`` for each."""
    return list(tf.nest.flatten(structure))


def _seed(part: Any, given: Any, scale: Any) -> Any:
    part = tf.convert_to_tensor(part)
    if not _is_number(part):
        return given
    seed = tf.ones_like(part) if given is None else tf.cast(given, part.dtype)
    return tf.cast(scale, part.dtype) * seed


def _is_number(values: Any) -> bool:
    return bool(values.dtype.is_floating or values.dtype.is_complex)


def _finite(values: Any) -> Any:
    parts = (tf.math.real, tf.math.imag) if values.dtype.is_complex else (tf.identity,)
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(part(values))) for part in parts])


def _in_a_loop() -> bool:
    """What is traced now is the body of a loop that TensorFlow runs, over data or not.

    A loop over data is a function of tf.data's, which is named after what it does there.
    """
    graph = tf.compat.v1.get_default_graph()
    while graph is not None:
        name = getattr(graph, "name", "")
        if "while" in name or name.startswith(_OF_DATA):
            return True
        graph = getattr(graph, "outer_graph", None)
    return False


def _divided(gradient: Any, scale: Any) -> Any:
    return _each_value(gradient, lambda values: values / tf.cast(scale, values.dtype))


def _or_zero(gradient: Any, finite: Any) -> Any:
    return _each_value(gradient, lambda values: tf.where(finite, values, tf.zeros_like(values)))


def _each_value(gradient: Any, change: Callable[[Any], Any]) -> Any:
    if gradient is None or not _is_number(gradient):
        return gradient
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(change(gradient.values), gradient.indices, gradient.dense_shape)
    return change(gradient)


def _values(gradient: Any) -> Any:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _gradient(
    tape: Any,
    target: Any,
    sources: Any,
    output_gradients: Any = None,
    unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
) -> Any:
    scaling: TracedLossScaler | None = _gradient_place.handler
    given = target, sources, output_gradients, unconnected_gradients
    if scaling is None or not tf.inside_function():
        return _gradient_place.original(tape, *given)
    return scaling.gradient(tape, *given)


def _apply(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
    scaling: TracedLossScaler | None = _apply_place.handler
    if scaling is None or not tf.inside_function():
        return _apply_place.original(optimizer, grads, trainable_variables)
    return scaling.apply(optimizer, grads, trainable_variables)


def _owner() -> Any:
    """Of the optimizers' method."""
    return next(each for each in keras.optimizers.Optimizer.__mro__ if _APPLY in vars(each))


_do_not_convert = tf.autograph.experimental.do_not_convert
_gradient_place = ScopedOverride(lambda: tf.GradientTape, "gradient", _do_not_convert(_gradient))
_apply_place = ScopedOverride(_owner, _APPLY, _do_not_convert(_apply))
