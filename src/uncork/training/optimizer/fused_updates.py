"""Weights updated by one kernel each, TensorFlow's own, where Keras's optimizers take a dozen.

Keras writes an update as products, roots and differences of whole weights, each of which reads and
writes memory. TensorFlow has had a kernel for the whole update of most optimizers since before
Keras 3. It works in place on the weight and on the state that Keras keeps, so there is nothing to
convert: a checkpoint is the same, and a training may go on with either at any step.

The arithmetic is Keras's, in its order. Adam's kernel subtracts its betas from one in float32 where
Keras does so in Python: of ``beta_2 = 0.999`` that is 1.3e-5 off, as is the state that it weighs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import keras
import tensorflow as tf

from uncork.compat.keras3.optimizer import (
    STRATEGY_UPDATE,
    method_of,
    state_list,
    weight_number,
    weights_of,
)
from uncork.core.edits.step import FusedUpdates


@dataclass(frozen=True)
class _Kernel:
    """How one of Keras's optimizers is told to one of TensorFlow's kernels: argument by argument.

    Attributes:
        op: Updates a weight, float32, by a dense gradient.
        state: Lists of the optimizer's variables, one for each weight.
        settings: Its attributes.
        powers: Attributes that are raised to the step's number, by Keras's own operations.
    """

    op: Callable[..., Any]
    state: Mapping[str, str]
    settings: Mapping[str, str]
    powers: Mapping[str, str] = field(default_factory=dict)

    def shared(self, optimizer: Any, rate: Any) -> dict[str, Any]:
        """What all weights of a step have in common; computed once."""
        step = keras.ops.cast(optimizer.iterations + 1, "float32")
        settings = {name: getattr(optimizer, own) for name, own in self.settings.items()}
        powers = {
            name: keras.ops.power(keras.ops.cast(getattr(optimizer, own), "float32"), step)
            for name, own in self.powers.items()
        }
        return {"lr": tf.cast(rate, tf.float32), **settings, **powers}

    def update(self, optimizer: Any, weight: Any, gradient: Any, shared: dict[str, Any]) -> None:
        """One weight and its state, in place."""
        place = weight_number(optimizer, weight)
        state = {
            name: state_list(optimizer, own)[place].value.handle for name, own in self.state.items()
        }
        self.op(var=weight.handle, grad=tf.cast(gradient, tf.float32), **state, **shared)


_OPS: Final = tf.raw_ops
_BETAS: Final = {"beta1": "beta_1", "beta2": "beta_2", "epsilon": "epsilon"}
_ADAM: Final = _Kernel(
    _OPS.ResourceApplyAdam,
    state={"m": "_momentums", "v": "_velocities"},
    settings=_BETAS,
    powers={"beta1_power": "beta_1", "beta2_power": "beta_2"},
)
_AMSGRAD: Final = replace(
    _ADAM,
    op=_OPS.ResourceApplyAdamWithAmsgrad,
    state={**_ADAM.state, "vhat": "_velocity_hats"},
)
_ADAMAX: Final = _Kernel(
    _OPS.ResourceApplyAdaMax,
    state={"m": "_m", "v": "_u"},
    settings=_BETAS,
    powers={"beta1_power": "beta_1"},
)
_MOMENTUM: Final = _Kernel(
    _OPS.ResourceApplyKerasMomentum,
    state={"accum": "momentums"},
    settings={"momentum": "momentum", "use_nesterov": "nesterov"},
)
_RMSPROP: Final = _Kernel(
    _OPS.ResourceApplyRMSProp,
    state={"ms": "_velocities", "mom": "_momentums"},
    settings={"rho": "rho", "momentum": "momentum", "epsilon": "epsilon"},
)
_CENTERED: Final = replace(
    _RMSPROP,
    op=_OPS.ResourceApplyCenteredRMSProp,
    state={**_RMSPROP.state, "mg": "_average_gradients"},
)
_ADADELTA: Final = _Kernel(
    _OPS.ResourceApplyAdadelta,
    state={"accum": "_accumulated_grads", "accum_update": "_accumulated_delta_vars"},
    settings={"rho": "rho", "epsilon": "epsilon"},
)


def _kernel_of(optimizer: Any) -> _Kernel | None:
    """What does all that an optimizer does to a weight; None where nothing does."""
    kind = type(optimizer)
    if kind in (keras.optimizers.Adam, keras.optimizers.AdamW):
        return _AMSGRAD if optimizer.amsgrad else _ADAM
    if kind is keras.optimizers.RMSprop and optimizer.momentum:
        return _CENTERED if optimizer.centered else _RMSPROP
    if kind is keras.optimizers.SGD and optimizer.momentum:
        return _MOMENTUM
    others = {keras.optimizers.Adamax: _ADAMAX, keras.optimizers.Adadelta: _ADADELTA}
    return others.get(kind)


def count_fusable_weights(optimizer: Any) -> int:
    """How many weights one kernel each could update; 0 where the optimizer has no such kernel.

    Args:
        optimizer: Built.

    Example:
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
        >>> model.compile("adam", "mse")
        >>> model.optimizer.build(model.trainable_variables)
        >>> count_fusable_weights(model.optimizer)
        2
    """
    if fused_update_refusal(optimizer) is not None:
        return 0
    return sum(weight.dtype == "float32" for weight in weights_of(optimizer))


def fused_update_refusal(optimizer: Any) -> str | None:
    """Why one kernel cannot do the optimizer's whole update of a weight; None if it can."""
    if _kernel_of(optimizer) is not None:
        return None
    name = type(optimizer).__name__
    if type(optimizer) is keras.optimizers.SGD:
        return f"{name} without momentum already updates each weight with one kernel"
    if type(optimizer) is keras.optimizers.RMSprop:
        return f"TensorFlow's kernel for {name} needs momentum, and this optimizer has none"
    return f"TensorFlow has no kernel for the update of {name}"


@contextmanager
def fuse_updates(optimizer: Any, edits: tuple[Any, ...]) -> Iterator[None]:
    """What is traced inside updates each weight by one kernel, where an edit asks for it.

    Weights with a sparse gradient or in another dtype than float32 are updated as ever.

    Args:
        optimizer: Of Keras, on one device.
        edits: Of the step.
    """
    if not any(isinstance(edit, FusedUpdates) for edit in edits):
        yield
        return
    as_ever = method_of(optimizer, STRATEGY_UPDATE)

    def update(strategy: Any, pairs: list[tuple[Any, Any]], rate: Any) -> None:
        update_with_kernels(optimizer, as_ever, strategy, pairs, rate)

    object.__setattr__(optimizer, STRATEGY_UPDATE, update)
    try:
        yield
    finally:
        object.__delattr__(optimizer, STRATEGY_UPDATE)


def update_with_kernels(
    optimizer: Any,
    original_update: Callable[..., None],
    strategy: Any,
    pairs: list[tuple[Any, Any]],
    rate: Any,
) -> int:
    """Update weights by one kernel each, as many as can be, and the others as ever.

    Args:
        optimizer: Whose.
        original_update: Its own way, given what follows.
        strategy: Of ``tf.distribute``.
        pairs: Gradients and weights.
        rate: Of learning.

    Returns:
        How many.
    """
    kernel = _kernel_of(optimizer)
    others = [pair for pair in pairs if kernel is None or not _is_for_kernel(*pair)]
    if others:
        original_update(strategy, others, rate)
    if kernel is None or len(others) == len(pairs):
        return 0
    shared = kernel.shared(optimizer, rate)
    for gradient, weight in pairs:
        if _is_for_kernel(gradient, weight):
            kernel.update(optimizer, weight, gradient, shared)
    return len(pairs) - len(others)


def _is_for_kernel(gradient: Any, weight: Any) -> bool:
    return isinstance(gradient, tf.Tensor) and weight.dtype == tf.float32
