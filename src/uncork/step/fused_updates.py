"""Weights updated by one kernel each, TensorFlow's own, where Keras's optimizers take a dozen.

Keras writes an update as products, roots and differences of whole weights, each of which reads and
writes memory. TensorFlow has had a kernel for the whole update of most optimizers since before
Keras 3. It works in place on the weight and on the state that Keras keeps, so there is nothing to
convert: a checkpoint is the same, and a training may go on with either at any step.

The arithmetic is Keras's, in its order. Adam's kernel subtracts its betas from one in float32 where
Keras does so in Python: of ``beta_2 = 0.999`` that is 1.3e-5 off, as is the state that it weighs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import keras
import tensorflow as tf

from uncork.core.edit import FusedUpdates

_UPDATE: Final = "_distributed_tf_update_step"

# What all weights of a step share: the rate, and powers of the step's number.
Shared = tuple[Any, ...]


class _Kernel:
    """How one class of Keras's optimizers is told to a kernel.

    Args:
        optimizer: Built.
    """

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def shared(self, rate: Any) -> Shared:
        """Computed once a step, by Keras's own operations."""
        return (tf.cast(rate, tf.float32),)

    def apply(self, place: int, weight: Any, gradient: Any, shared: Shared) -> None:
        """Update a weight and its state.

        Args:
            place: Of the weight's state in the optimizer's lists.
            weight: A resource variable, float32.
            gradient: Dense, float32.
            shared: From :meth:`shared`.
        """
        raise NotImplementedError

    def _power(self, beta: float) -> Any:
        step = keras.ops.cast(self.optimizer.iterations + 1, "float32")
        return keras.ops.power(keras.ops.cast(beta, "float32"), step)


class _Adam(_Kernel):
    def shared(self, rate: Any) -> Shared:
        adam = self.optimizer
        return (self._power(adam.beta_1), self._power(adam.beta_2), *super().shared(rate))

    def apply(self, place: int, weight: Any, gradient: Any, shared: Shared) -> None:
        adam = self.optimizer
        options = {
            "var": weight.handle,
            "m": _handle(adam._momentums[place]),
            "v": _handle(adam._velocities[place]),
            "beta1_power": shared[0],
            "beta2_power": shared[1],
            "lr": shared[2],
            "beta1": adam.beta_1,
            "beta2": adam.beta_2,
            "epsilon": adam.epsilon,
            "grad": gradient,
        }
        if adam.amsgrad:
            largest = _handle(adam._velocity_hats[place])
            tf.raw_ops.ResourceApplyAdamWithAmsgrad(vhat=largest, **options)
        else:
            tf.raw_ops.ResourceApplyAdam(**options)


class _Momentum(_Kernel):
    def apply(self, place: int, weight: Any, gradient: Any, shared: Shared) -> None:
        sgd = self.optimizer
        tf.raw_ops.ResourceApplyKerasMomentum(
            var=weight.handle,
            accum=_handle(sgd.momentums[place]),
            lr=shared[0],
            grad=gradient,
            momentum=sgd.momentum,
            use_nesterov=sgd.nesterov,
        )


class _RMSprop(_Kernel):
    def apply(self, place: int, weight: Any, gradient: Any, shared: Shared) -> None:
        rms = self.optimizer
        options = {
            "var": weight.handle,
            "ms": _handle(rms._velocities[place]),
            "mom": _handle(rms._momentums[place]),
            "lr": shared[0],
            "rho": rms.rho,
            "momentum": rms.momentum,
            "epsilon": rms.epsilon,
            "grad": gradient,
        }
        if rms.centered:
            mean = _handle(rms._average_gradients[place])
            tf.raw_ops.ResourceApplyCenteredRMSProp(mg=mean, **options)
        else:
            tf.raw_ops.ResourceApplyRMSProp(**options)


class _Adamax(_Kernel):
    def shared(self, rate: Any) -> Shared:
        return (self._power(self.optimizer.beta_1), *super().shared(rate))

    def apply(self, place: int, weight: Any, gradient: Any, shared: Shared) -> None:
        adamax = self.optimizer
        tf.raw_ops.ResourceApplyAdaMax(
            var=weight.handle,
            m=_handle(adamax._m[place]),
            v=_handle(adamax._u[place]),
            beta1_power=shared[0],
            lr=shared[1],
            beta1=adamax.beta_1,
            beta2=adamax.beta_2,
            epsilon=adamax.epsilon,
            grad=gradient,
        )


class _Adadelta(_Kernel):
    def apply(self, place: int, weight: Any, gradient: Any, shared: Shared) -> None:
        adadelta = self.optimizer
        tf.raw_ops.ResourceApplyAdadelta(
            var=weight.handle,
            accum=_handle(adadelta._accumulated_grads[place]),
            accum_update=_handle(adadelta._accumulated_delta_vars[place]),
            lr=shared[0],
            rho=adadelta.rho,
            epsilon=adadelta.epsilon,
            grad=gradient,
        )


_KERNELS: Final[dict[type, type[_Kernel]]] = {
    keras.optimizers.Adam: _Adam,
    keras.optimizers.AdamW: _Adam,
    keras.optimizers.SGD: _Momentum,
    keras.optimizers.RMSprop: _RMSprop,
    keras.optimizers.Adamax: _Adamax,
    keras.optimizers.Adadelta: _Adadelta,
}


def fusable_weights(optimizer: Any) -> int:
    """How many weights one kernel each could update; 0 where the optimizer has no such kernel.

    Args:
        optimizer: Built.

    Example:
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
        >>> model.compile("adam", "mse")
        >>> model.optimizer.build(model.trainable_variables)
        >>> fusable_weights(model.optimizer)
        2
    """
    if why_not_fused(optimizer) is not None:
        return 0
    return sum(weight.dtype == "float32" for weight in optimizer._trainable_variables)


def why_not_fused(optimizer: Any) -> str | None:
    """What keeps one kernel from doing all that an optimizer does to a weight; None if nothing."""
    if type(optimizer) not in _KERNELS:
        return f"TensorFlow has no kernel that does what {type(optimizer).__name__} does"
    if type(optimizer) is keras.optimizers.SGD and not optimizer.momentum:
        return "SGD without momentum is a single kernel a weight already"
    if type(optimizer) is keras.optimizers.RMSprop and not optimizer.momentum:
        return "TensorFlow's kernel for RMSprop keeps a momentum, which this one has not"
    return None


@contextmanager
def fused(optimizer: Any, edits: tuple[Any, ...]) -> Iterator[None]:
    """What is traced inside updates each weight by one kernel, where an edit asks for it.

    Weights with a sparse gradient or in another dtype than float32 are updated as ever.

    Args:
        optimizer: Of Keras, on one device.
        edits: Of the step.
    """
    if not any(isinstance(edit, FusedUpdates) for edit in edits):
        yield
        return
    object.__setattr__(optimizer, _UPDATE, _update_by(optimizer, getattr(optimizer, _UPDATE)))
    try:
        yield
    finally:
        object.__delattr__(optimizer, _UPDATE)


def _update_by(optimizer: Any, as_ever: Callable[..., None]) -> Callable[..., None]:
    """In the place of the optimizer's own, each time that a step is traced."""
    kernel = _KERNELS[type(optimizer)](optimizer)

    def update(strategy: Any, pairs: list[tuple[Any, Any]], rate: Any) -> None:
        others = [pair for pair in pairs if not _is_for_kernel(*pair)]
        if others:
            as_ever(strategy, others, rate)
        shared = kernel.shared(rate)
        for gradient, weight in pairs:
            if _is_for_kernel(gradient, weight):
                place = optimizer._get_variable_index(weight)
                kernel.apply(place, weight, tf.cast(gradient, tf.float32), shared)

    return update


def _is_for_kernel(gradient: Any, weight: Any) -> bool:
    return isinstance(gradient, tf.Tensor) and weight.dtype == tf.float32


def _handle(state: Any) -> Any:
    return state.value.handle
