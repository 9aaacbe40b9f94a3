"""The graph of operations inside a ``Sequential`` or functional model.

Borrowed: ``Functional``, ``operation_fn``, the nodes of a model, its structures of inputs and
    outputs, the node that a tensor comes from, and the method that runs all nodes.
Why: the public API calls a whole model; it neither lists its operations with what they read, nor
    runs some of them.
Works with: Keras 3.7.0 and 3.15.1; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported or by the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from uncork.compat.borrow import borrow, borrow_attribute

_MODULE: Final = "keras.src.models.functional"

# The class of all functional models.
Functional: Final[Any] = borrow(_MODULE, "Functional")
# Of an operation: what to call in its place, so that it knows whether the model is training.
operation_fn: Final[Callable[..., Any]] = borrow(_MODULE, "operation_fn")
# Inputs of a functional model as a flat list of tensors, converted and reshaped as it wants them.
standardize_inputs: Final[Callable[[Any, Any], list[Any]]] = borrow(
    _MODULE, "Functional._standardize_inputs"
)
# The method that runs all nodes of a functional model: ``(inputs, operation_fn, call_fn)``.
RUN_NODES: Final = "_run_through_graph"
borrow("keras.src.ops.function", f"Function.{RUN_NODES}")


def functional_in(sequential: Any) -> Any | None:
    """The functional model that a ``Sequential`` runs; None before that is built.

    Example:
        >>> import keras
        >>> functional_in(keras.Sequential()) is None
        True
    """
    return borrow_attribute(sequential, "_functional")


def nodes_of(model: Any) -> list[Any]:
    """The nodes of a functional model in the order in which it runs them, its inputs among them.

    Example:
        >>> import keras
        >>> x = keras.Input((2,), name="x")
        >>> [node.operation.name for node in nodes_of(keras.Model(x, x + 1))]
        ['x', 'add']
    """
    depths = borrow_attribute(model, "_nodes_by_depth")
    return [node for depth in sorted(depths, reverse=True) for node in depths[depth]]


def inputs_structure(model: Any) -> Any:
    """The inputs of a functional model as the user gave them: a tensor, a list, a dictionary."""
    return borrow_attribute(model, "_inputs_struct")


def outputs_structure(model: Any) -> Any:
    """The outputs of a functional model as the user gave them."""
    return borrow_attribute(model, "_outputs_struct")


def history_of(tensor: Any) -> Any:
    """Where a symbolic tensor comes from: ``operation``, ``node_index`` and ``tensor_index``."""
    return borrow_attribute(tensor, "_keras_history")


def calls_of(operation: Any) -> list[Any]:
    """The nodes of all symbolic calls of a layer or operation, those of other models included."""
    nodes: list[Any] = borrow_attribute(operation, "_inbound_nodes")
    return nodes
