"""What Keras keeps on a layer: the layers inside it, its own variables, seeds and input shapes.

Borrowed: ``Layer._flatten_layers`` and some fields of layers; ``DropoutRNNCell``.
Why: nothing public lists the layers inside a layer, or its own variables and seeds without theirs;
    or says what shapes it was built for, and whether its ``call`` is told of a training.
Works with: Keras 3.7.0 and 3.15.1; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported or by the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from uncork.compat.borrow import borrow, borrow_attribute

# A layer and all layers inside it: ``(layer, include_self=True, recursive=True)``.
flatten_layers: Final[Callable[..., list[Any]]] = borrow(
    "keras.src.layers.layer", "Layer._flatten_layers"
)
# Adds a dropout to the cells of recurrent layers.
DropoutRNNCell: Final[Any] = borrow("keras.src.layers.rnn.dropout_rnn_cell", "DropoutRNNCell")
# The list of losses that a call has added to a layer.
ADDED_LOSSES: Final = "_losses"
# What Keras reads of layers, and of optimizers, in each step, beside their public attributes.
READ_IN_STEPS: Final = frozenset({"_trainable", "_dtype_policy", "_learning_rate", "_layers"})


def seed_generators(layer: Any) -> list[Any]:
    """What a layer itself draws from, without the layers inside it.

    Example:
        >>> import keras
        >>> len(seed_generators(keras.layers.Dropout(0.5)))
        1
    """
    generators: list[Any] = borrow_attribute(layer, "_seed_generators")
    return generators


def own_trainable_variables(layer: Any) -> list[Any]:
    """Weights of a layer itself, without the layers inside it, whether it is frozen or not."""
    variables: list[Any] = borrow_attribute(layer, "_trainable_variables")
    return variables


def own_non_trainable_variables(layer: Any) -> list[Any]:
    """Variables of a layer itself that no gradient changes, without those of its seeds."""
    variables: list[Any] = borrow_attribute(layer, "_non_trainable_variables")
    return variables


def own_metrics(layer: Any) -> list[Any]:
    """Metrics of a layer itself, without the layers inside it."""
    metrics: list[Any] = borrow_attribute(layer, "_metrics")
    return metrics


def takes_training(layer: Any) -> bool:
    """Whether the ``call`` of a layer has an argument ``training``."""
    return bool(borrow_attribute(layer, "_call_has_training_arg"))


def built_shapes(layer: Any) -> dict[str, Any]:
    """Shapes that a layer was built for, by the argument of its ``build``; none before.

    Example:
        >>> import keras
        >>> dense = keras.layers.Dense(1)
        >>> dense.build((None, 2))
        >>> built_shapes(dense)
        {'input_shape': (None, 2)}
    """
    return borrow_attribute(layer, "_build_shapes_dict") or {}


def table_of(embedding: Any) -> Any:
    """The variable of a built ``Embedding``, without what LoRA adds when it is read."""
    return borrow_attribute(embedding, "_embeddings")


def learning_setting(part: Any) -> Any:
    """What ``trainable`` of a layer or a variable was set to, whatever is true of what holds it."""
    return borrow_attribute(part, "_trainable")


def set_learning_setting(part: Any, setting: Any) -> None:
    """Set ``trainable`` of one layer or variable, and of nothing inside it."""
    borrow_attribute(part, "_trainable")
    part._trainable = setting
