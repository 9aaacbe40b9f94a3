"""A map's function on a device, with all numbers that it holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import tensorflow as tf

from uncork.pipeline.functions.function_graph import (
    ConcreteFunction,
    Graph,
    Tensor,
    argument_specs,
    constant_value,
    graph_of,
    replay,
    trace,
)


class DeviceFunction:
    """The same function, its ops and numbers on a device; to be called while a step is traced.

    TensorFlow and XLA turn a division by a constant into a multiplication, which rounds otherwise,
    but not in functions of a pipeline. So no number is a constant here.

    Rows that it gathers from are held in variables: Keras keeps every graph of a training step for
    as long as the process lives, and with it whatever tensor the graph has captured.

    Args:
        function: Of a map.
        device: In TensorFlow's words; ``""`` for where TensorFlow would run it.
        is_row_gather: What it holds are rows.

    Attributes:
        function: As given.
    """

    def __init__(self, function: ConcreteFunction, device: str, *, is_row_gather: bool) -> None:
        self.function, self._device = function, device
        graph = graph_of(function)
        self._arrays = dict(graph.captures) if is_row_gather else {}
        self._filled = True
        with tf.init_scope(), tf.device(device or None):
            self._rows = {name: _variable(array) for name, array in self._arrays.items()}
            self._made = _traced(graph, device, self._rows)

    def __call__(self, *flat: Tensor) -> list[Tensor]:
        """Of flat tensors, as the function itself."""
        made: list[Tensor] = self._made(*flat)
        return made

    def load_rows(self) -> None:
        """Put the rows there again after :meth:`release_rows`."""
        if not self._filled:
            self._filled = True  # in part, where there is no room: let_go gives that back
            self._assign(self._arrays)

    def release_rows(self) -> None:
        """Give the memory of the rows back."""
        if self._filled and self._rows:
            self._assign({name: array[:0] for name, array in self._arrays.items()})
            self._filled = False

    def _assign(self, values: dict[str, Tensor]) -> None:
        with tf.init_scope(), tf.device(self._device or None):
            for name, value in values.items():
                self._rows[name].assign(value)


def _variable(array: Tensor) -> tf.Variable:
    return tf.Variable(array, trainable=False, shape=[None, *array.shape[1:]])


def _traced(graph: Graph, device: str, rows: dict[str, tf.Variable]) -> ConcreteFunction:
    proto = type(graph.proto)()
    proto.CopyFrom(graph.proto)
    for node in proto.node:
        node.device = device
    # What the function is traced from lives as long as it does: no array may be part of that.
    placed, arguments = replace(graph.with_proto(proto), captures={}), graph.arguments
    numbers = {name: outer for name, outer in graph.captures.items() if name not in rows}
    numbers |= {name: constant_value(graph.nodes[name]) for name in _constants(graph)}
    held = {f"{name}:0": tf.identity(number) for name, number in numbers.items()}
    names, outputs = graph.required_ops(graph.outputs) - {*numbers, *rows}, graph.outputs

    def body(*flat: Tensor) -> list[Tensor]:
        current = tf.compat.v1.get_default_graph()
        feeds = dict(zip((f"{name}:0" for name in arguments), flat, strict=True))
        feeds |= {name: current.capture(number) for name, number in held.items()}
        feeds |= {f"{name}:0": variable.read_value() for name, variable in rows.items()}
        return replay(placed, names, feeds, outputs)

    return trace("uncork_last_map", argument_specs(graph), body)


def _constants(graph: Graph) -> Iterator[str]:
    """Of floating point; whole numbers may be axes and shapes, which must be known beforehand."""
    for name, node in graph.nodes.items():
        if node.op == "Const" and tf.as_dtype(node.attr["dtype"].type).is_floating:
            yield name
