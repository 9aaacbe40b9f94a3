"""Does a model treat each example of a batch independently? Then micro-batches are legal.

What can be read off a model is read here; what a layer or a loss of the user's own does with a
batch is not, and is left to the comparison of weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import keras

from uncork.compat.keras3.layers import (
    DropoutRNNCell,
    flatten_layers,
    own_metrics,
    own_non_trainable_variables,
    seed_generators,
)
from uncork.compat.keras3.model_state import (
    compile_metrics,
    loss_arguments,
    losses_of,
    metric_function,
    strategy_of,
)
from uncork.training.state.snapshot import find_untracked_variables
from uncork.training.tracing.model_attribute import override_attribute

# They draw for each number, or each row and channel, by itself.
_DROPPING: Final = (
    keras.layers.Dropout,
    keras.layers.AlphaDropout,
    keras.layers.GaussianDropout,
    keras.layers.GaussianNoise,
    keras.layers.SpatialDropout1D,
    keras.layers.SpatialDropout2D,
    keras.layers.SpatialDropout3D,
)
# What these draw, a Dropout inside them draws.
_ATTENTION: Final = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)
# Set by ``adapt``, and by no step.
_ADAPTED: Final = (
    keras.layers.Normalization,
    keras.layers.Discretization,
    keras.layers.IntegerLookup,
    keras.layers.StringLookup,
    keras.layers.TextVectorization,
)
_OVERRIDDEN: Final = ("train_step", "compute_loss", "compute_metrics")
_MEAN: Final = ("sum_over_batch_size", "mean")
_IGNORE: Final = "ignore_class"
_ACROSS: Final = tuple(
    getattr(keras.losses, name)
    for name in ("Circle", "Dice", "Tversky")
    if hasattr(keras.losses, name)
)


def micro_batch_refusal(model: Any) -> str | None:
    """Why micro-batches would change the training; None if no reason is known.

    Args:
        model: Built and compiled.

    Example:
        >>> layers = keras.layers
        >>> model = keras.Sequential([keras.Input((4,)), layers.BatchNormalization(name="norm")])
        >>> model.compile("sgd", "mse")
        >>> micro_batch_refusal(model)
        "the layer 'norm' (BatchNormalization) computes its mean and variance over the whole batch"
    """
    reasons = (_of_step(model), _of_batch_size(model), _of_losses(model), _of_metrics(model))
    return next((reason for reason in (*reasons, *_of_layers(model)) if reason), None)


def loss_reductions(model: Any) -> set[str]:
    """How the losses of a model reduce a batch; empty where no loss is compiled.

    Args:
        model: Compiled, its losses built.
    """
    found = {str(getattr(loss, "reduction", "none")) for loss in losses_of(model)}
    return {"mean" if each in _MEAN else each for each in found}


def has_per_example_randomness(model: Any) -> bool:
    """Layers of a model that :func:`micro_batch_refusal` lets pass draw for each example anew."""
    return any(seed_generators(layer) for layer in flatten_layers(model))


@contextmanager
def disable_random_layers(model: Any) -> Iterator[None]:
    """What is traced inside drops nothing and adds no noise; all else is as in a training.

    Args:
        model: One that :func:`micro_batch_refusal` lets pass.
    """
    with ExitStack() as stack:
        for layer in flatten_layers(model):
            if isinstance(layer, _DROPPING):
                stack.enter_context(override_attribute(layer, "call", _as_it_is))
            if isinstance(layer, DropoutRNNCell):
                for name in ("dropout", "recurrent_dropout"):
                    stack.enter_context(override_attribute(layer, name, 0.0))
        yield


def _as_it_is(inputs: Any, training: Any = None) -> Any:
    del training
    return inputs


def _of_step(model: Any) -> str | None:
    for name in _OVERRIDDEN:
        if getattr(type(model), name, None) is not getattr(keras.Model, name):
            return f"the model overrides {name}"
    if strategy_of(model) is not None:
        return "the model trains under a tf.distribute strategy"
    if model.optimizer is None or not model.trainable_weights:
        return "the model has no trainable weights"
    if model.optimizer.gradient_accumulation_steps:
        return (
            "the optimizer accumulates gradients over batches: gradient_accumulation_steps is set"
        )
    others = [name for name, _ in find_untracked_variables(model)]
    return f"a layer has a tf.Variable that a step may change: {others[0]}" if others else None


def _of_batch_size(model: Any) -> str | None:
    sizes = {part.shape[0] for part in getattr(model, "inputs", None) or () if part.shape}
    fixed = sizes - {None}
    return f"the model has a fixed batch size of {fixed.pop()}" if fixed else None


def _of_losses(model: Any) -> str | None:
    found = loss_reductions(model)
    if len(found) > 1:
        return f"the losses of the model reduce a batch in several ways: {', '.join(found)}"
    other = found - {"mean", "sum"}
    if other:
        return f"the loss of the model reduces a batch by reduction={other.pop()!r}"
    losses = losses_of(model)
    for loss in losses:
        if isinstance(loss, _ACROSS):
            return f"the loss {type(loss).__name__} combines the examples of a batch"
        if _ignores(loss):
            return (
                f"the loss {type(loss).__name__} is averaged over the labels that it does "
                "not ignore"
            )
    if found == {"sum"} and len(losses) > 1:
        return "the model has several losses, each a sum over the batch"
    return None


def _ignores(loss: Any) -> bool:
    """Some of the targets, as many as there may be: a mask, by which Keras divides."""
    given = loss_arguments(loss).get(_IGNORE)
    return getattr(loss, _IGNORE, None) is not None or given is not None


def _of_metrics(model: Any) -> str | None:
    """Parts are counted like batches, of which a metric of the user's own may make anything."""
    compiled = compile_metrics(model)
    for each in compiled.metrics if compiled is not None and compiled.built else ():
        function = metric_function(each)
        if not str(getattr(function, "__module__", "")).startswith("keras."):
            return (
                f"the script defines the metric '{each.name}', which may combine the examples "
                "of a batch"
            )
    return None


def _of_layers(model: Any) -> Iterator[str | None]:
    for layer in flatten_layers(model):
        name = f"the layer '{layer.name}' ({type(layer).__name__})"
        if isinstance(layer, keras.layers.BatchNormalization):
            if layer.trainable:
                yield f"{name} computes its mean and variance over the whole batch"
        elif own_non_trainable_variables(layer) and not isinstance(layer, _ADAPTED):
            yield f"{name} has variables that a step may change"
        elif own_metrics(layer) and layer is not model:
            yield f"{name} has a metric of its own"
        if seed_generators(layer) and not _draws_alone(layer):
            yield f"{name} uses random numbers, perhaps one for the whole batch"


def _draws_alone(layer: Any) -> bool:
    if isinstance(layer, _DROPPING):
        return getattr(layer, "noise_shape", None) is None
    return isinstance(layer, (*_ATTENTION, DropoutRNNCell)) or _hands_on(layer)


def _hands_on(layer: Any) -> bool:
    """What it draws, a cell inside it draws."""
    return isinstance(layer, keras.layers.RNN)
