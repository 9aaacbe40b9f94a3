"""How much of a map function is opening small files."""

from __future__ import annotations

from typing import Any, Final

import tensorflow as tf

from uncork.pipeline.functions.effects import is_order_free
from uncork.pipeline.functions.function_graph import (
    ConcreteFunction,
    argument_specs,
    graph_of,
    replay,
    trace,
)

# Fewer files for one element are no habit of writing data in pieces.
_MANY: Final = 4


def count_file_reads(function: ConcreteFunction) -> int:
    """Files that one call opens, as far as its ops say so; those of a loop count once.

    Example:
        >>> @tf.function
        ... def load(x_name, y_name):
        ...     return tf.io.read_file(x_name), tf.io.read_file(y_name)
        >>> name = tf.TensorSpec([], tf.string)
        >>> count_file_reads(load.get_concrete_function(name, name))
        2
    """
    return sum(node.op == "ReadFile" for node in graph_of(function).nodes.values())


def extract_file_reads(function: ConcreteFunction) -> ConcreteFunction | None:
    """The same function up to where its files are read; gives how many bytes they have.

    Returns:
        None where it reads few files, or not by itself alone.
    """
    graph = graph_of(function)
    if count_file_reads(function) < _MANY or not is_order_free(function):
        return None
    contents = [f"{name}:0" for name, node in graph.nodes.items() if node.op == "ReadFile"]
    names = graph.required_ops(contents)

    def lengths(*tensors: Any) -> list[Any]:
        feeds = dict(zip((f"{a}:0" for a in graph.arguments), tensors, strict=True))
        read = replay(graph, names, feeds, contents)
        return [tf.add_n([tf.reduce_sum(tf.strings.length(each)) for each in read])]

    return trace("uncork_reading", argument_specs(graph), lengths)
