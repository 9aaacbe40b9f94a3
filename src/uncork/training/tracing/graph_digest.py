"""What a traced function computes, whatever its author calls the parts of it.

A loop's step may be the same text in the next run, and compute something else: a model, a loss or
an optimizer that it finds by name is another one. In its graph that shows.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from uncork.core.base.record import digest

# They come and go with what else was traced before, and compute nothing.
_IDLE: Final = frozenset({"Const", "Identity", "NoOp"})
_READS_WEIGHT: Final = "ReadVariableOp"


def graph_digest(traced: Any) -> str:
    """Digest of the ops of a function and of all that it calls, their dtypes and weights' shapes.

    Names play no part, nor the order in which ops were traced; numbers that are part of the graph
    do not, nor what variables hold. Batches may be of any length: as long as the longest text, say.

    Args:
        traced: A concrete function.

    Example:
        >>> import tensorflow as tf
        >>> def traced(function):
        ...     return tf.function(function).get_concrete_function(tf.TensorSpec([2]))
        >>> graph_digest(traced(lambda x: 2 * x)) == graph_digest(traced(lambda z: z * 3))
        True
        >>> graph_digest(traced(lambda x: 2 * x)) == graph_digest(traced(tf.square))
        False
    """
    own = Counter(_said(op) for op in traced.graph.get_operations() if op.type not in _IDLE)
    called = traced.graph.as_graph_def().library.function
    inner = Counter(
        f"{node.op} {_dtypes(node)}"
        for function in called
        for node in function.node_def
        if node.op not in _IDLE
    )
    return digest(*(f"{times} {op}" for ops in (own, inner) for op, times in sorted(ops.items())))


def _said(op: Any) -> str:
    shape = op.outputs[0].shape if op.type == _READS_WEIGHT else ""
    return f"{op.type} {[out.dtype.name for out in op.outputs]} {shape}"


def _dtypes(node: Any) -> list[tuple[str, int]]:
    attributes = node.attr.items()
    return sorted((name, a.type) for name, a in attributes if a.WhichOneof("value") == "type")
