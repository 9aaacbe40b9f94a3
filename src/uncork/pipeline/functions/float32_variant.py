"""A map function in single precision, to see what double precision costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.pipeline.functions.effects import is_order_free
from uncork.pipeline.functions.function_graph import (
    ConcreteFunction,
    Graph,
    NodeDef,
    argument_specs,
    graph_of,
    replay,
    trace,
)

_NARROWER: Final = {
    tf.float64.as_datatype_enum: tf.float32.as_datatype_enum,
    tf.complex128.as_datatype_enum: tf.complex64.as_datatype_enum,
}
# Of numbers that come or go, or are turned into others: no work in their dtype.
_NO_WORK: Final = frozenset({"Cast", "Const", "Identity", "IdentityN", "Placeholder", "NoOp"})


def convert_to_float32(function: ConcreteFunction) -> ConcreteFunction | None:
    """The same function with its float64 ops in float32; takes and gives what the original does.

    It is there to be timed, not to be trained on: its results are rounded otherwise.

    Returns:
        None where nothing is computed in double precision, where that is inside loops and branches,
        where an op knows no other, or where the function draws random numbers, keeps state or runs
        Python.

    Example:
        >>> double = tf.function(lambda x: x * 0.5 + 1.0)
        >>> single = convert_to_float32(
        ...     double.get_concrete_function(tf.TensorSpec([2], tf.float64))
        ... )
        >>> single(tf.constant([1.0, 2.0], tf.float64))[0].numpy()
        array([1.5, 2. ])
    """
    graph = graph_of(function)
    inner = (node for body in graph.library.values() for node in body.node_def)
    if not any(map(_works_wide, graph.nodes.values())) or any(map(_works_wide, inner)):
        return None
    if not is_order_free(function):
        return None
    altered = _narrower(graph)
    names = altered.required_ops(graph.outputs) - set(graph.captures)

    def single(*tensors: Any) -> list[Any]:
        current = tf.compat.v1.get_default_graph()
        given = dict(zip(graph.arguments, tensors, strict=True))
        given |= {name: current.capture(outer) for name, outer in graph.captures.items()}
        feeds = {f"{name}:0": _in_single(tensor) for name, tensor in given.items()}
        made = replay(altered, names, feeds, graph.outputs)
        wanted = (tensor.dtype for tensor in function.graph.outputs)
        return [tf.cast(m, w) if m.dtype != w else m for m, w in zip(made, wanted, strict=True)]

    try:
        return trace("uncork_narrowed", argument_specs(graph), single)
    except (ValueError, TypeError, tf.errors.OpError):  # an op that knows no other precision
        return None


def _works_wide(node: NodeDef) -> bool:
    return node.op not in _NO_WORK and any(t in _NARROWER for t in _types(node))


def _types(node: NodeDef) -> Iterator[int]:
    for value in node.attr.values():
        yield value.type
        yield from value.list.type


def _in_single(tensor: Any) -> Any:
    kind = _NARROWER.get(tensor.dtype.as_datatype_enum)
    return tensor if kind is None else tf.cast(tensor, tf.as_dtype(kind))


def _narrower(graph: Graph) -> Graph:
    proto = type(graph.proto)()
    proto.CopyFrom(graph.proto)
    for node in proto.node:
        for value in node.attr.values():
            if value.HasField("type"):
                value.type = _NARROWER.get(value.type, value.type)
            for index, kind in enumerate(value.list.type):
                value.list.type[index] = _NARROWER.get(kind, kind)
            if value.HasField("tensor") and value.tensor.dtype in _NARROWER:
                kind = tf.as_dtype(_NARROWER[value.tensor.dtype])
                numbers = np.asarray(tf.make_ndarray(value.tensor), kind.as_numpy_dtype)
                value.tensor.CopyFrom(tf.make_tensor_proto(numbers, kind))
    return graph.with_proto(proto)
