"""What can be told of a training step from outside: its variables' device, its loss."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import keras

from uncork.compat.tf.functions import traces

# What TensorFlow's cross-entropy of one-hot labels becomes.
_CATEGORICAL: Final = "SoftmaxCrossEntropyWithLogits"
# What leaves labels as they are.
_AS_GIVEN: Final = frozenset({"Cast", "ExpandDims", "Identity", "Reshape", "Squeeze"})
# What a graph is given from outside; of a function's body the arguments are no nodes.
_ARGUMENTS: Final = frozenset({"Placeholder", "IteratorGetNext"})


def step_device(step: Any) -> str:
    """Where the variables are that a step trains, in TensorFlow's words; ``""`` if not known.

    Args:
        step: A ``tf.function`` that was called before, or a Keras model.

    Example:
        >>> import tensorflow as tf
        >>> weight = tf.Variable(1.0)
        >>> step = tf.function(lambda: weight.assign_add(1.0))
        >>> bool(step()), step_device(step)[-5:]
        (True, 'CPU:0')
    """
    with suppress(Exception):  # of a model that was never built, of variables that are gone
        if isinstance(step, keras.Model):
            return str(step.trainable_variables[0].value.device)
        variables = [v for function in traces(step) for v in function.variables]
        return next((str(v.device) for v in variables if v.trainable and v.dtype.is_floating), "")
    return ""


def has_categorical_loss(step: Any) -> bool:
    """Whether whole numbers could take the place of one-hot labels, as far as that is known.

    So it is where the loss is a cross-entropy of categories and nothing smooths or mixes them.

    Args:
        step: A ``tf.function`` that was called before, or a compiled Keras model.
    """
    if not isinstance(step, keras.Model):
        return any(_takes_labels_as_given(function) for function in traces(step))
    loss = getattr(step, "loss", None)
    name = getattr(loss, "name", None) or getattr(loss, "__name__", None) or loss
    plain = not getattr(loss, "label_smoothing", 0) and getattr(loss, "axis", -1) == -1
    own_step = type(step).train_step is not keras.Model.train_step
    known = name in ("categorical_crossentropy", "CategoricalCrossentropy")
    return known and plain and not own_step


def _takes_labels_as_given(function: Any) -> bool:
    """Some cross-entropy in its graph, or in what that calls, is of labels that come in."""
    proto = function.graph.as_graph_def()
    bodies = [proto.node, *(inner.node_def for inner in proto.library.function)]
    for body in bodies:
        nodes = {node.name: node for node in body}
        for node in body:
            if node.op == _CATEGORICAL and _is_given(_name(node.input[1]), nodes):
                return True
    return False


def _is_given(name: str, nodes: Mapping[str, Any]) -> bool:
    """What a function is given, another dtype or shape at most."""
    while name in nodes and nodes[name].op in _AS_GIVEN:
        name = _name(nodes[name].input[0])
    return name not in nodes or nodes[name].op in _ARGUMENTS


def _name(tensor: str) -> str:
    return tensor.lstrip("^").partition(":")[0]


def find_op_types(function: Any) -> set[str]:
    """Kinds of ops of its graph, and of the functions that it calls."""
    proto = function.graph.as_graph_def()
    bodies = [proto.node, *(inner.node_def for inner in proto.library.function)]
    return {node.op for body in bodies for node in body}
