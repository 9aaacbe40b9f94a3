"""The last map of a pipeline, as something that can as well be done to what has arrived elsewhere.

A map that makes floats of bytes makes four bytes of each, and all of them are sent to the device
that trains. Done there, the same ops make the same numbers of a quarter of the bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import tensorflow as tf

from uncork.core.edit import VectorizeMap
from uncork.core.errors import EditRefused
from uncork.pipeline.edits import apply, onto
from uncork.pipeline.effects import is_order_free
from uncork.pipeline.fusions import fused_shuffles
from uncork.pipeline.graphs import (
    ConcreteFunction,
    Graph,
    NodeDef,
    Tensor,
    argument_specs,
    graph_of,
    replay,
    trace,
)
from uncork.pipeline.kinds import Dataset
from uncork.pipeline.node import Node
from uncork.pipeline.splitting import CHEAP
from uncork.pipeline.structure import function_digest
from uncork.pipeline.tree import Pipeline, Place, read

# Stages that hand on what they are given, one by one, whatever it is.
_HANDING_ON: Final = frozenset({"prefetch", "options", "assert_cardinality", "repeat"})
# Beside cheap work: what moves values about, and what the vectoriser of maps asks of shapes. Every
# device has kernels for these, and XLA compiles them.
_ANYWHERE: Final = CHEAP | {
    "Placeholder", "Const", "NoOp", "IdentityN", "Neg", "Shape", "StridedSlice", "ConcatV2", "Pack",
    "Unpack", "Transpose", "ReverseV2", "BroadcastTo", "Tile", "Fill", "Range", "Rank", "Size",
    "ZerosLike", "OnesLike", "BiasAdd", "Sqrt", "Rsqrt", "Split", "Prod", "SelectV2", "GatherV2",
    "Greater", "Less", "Equal", "LogicalAnd", "Max", "Min", "PlaceholderWithDefault",
}  # fmt: skip
# Bytes of what a function holds (a mean image, say), which is put on the device with it.
_MOST_HELD: Final = 1 << 26
_UNKNOWN: Final = 64


@dataclass(frozen=True, eq=False)
class LastMap:
    """A map that nothing but handing on is done behind.

    Attributes:
        function: Of flat tensors.
        structure: Of the elements that it gives.
        below: The pipeline without it.
    """

    function: ConcreteFunction
    structure: Any
    below: Dataset

    @property
    def digest(self) -> str:
        """Equal for functions that do the same."""
        return function_digest(self.function)

    @cached_property
    def widens(self) -> bool:
        """It makes more bytes than it takes."""
        return _size(self.structure) > _size(self.below.element_spec)

    def made(self, given: Any) -> Any:
        """What it makes of an element of :attr:`below`, in the function of a map."""
        return self._packed(self.function(*tf.nest.flatten(given)))

    def on(self, device: str) -> Callable[[Any], Any]:
        """The same on a device, with all numbers that it holds.

        TensorFlow and XLA turn a division by a constant into a multiplication, which rounds
        otherwise, but not in functions of a pipeline. So no number is a constant here.

        Args:
            device: In TensorFlow's words; ``""`` for where TensorFlow would run it.
        """
        graph = graph_of(self.function)
        proto = type(graph.proto)()
        proto.CopyFrom(graph.proto)
        for node in proto.node:
            node.device = device
        placed = graph.with_proto(proto)
        numbers = dict(graph.captures) | {n: _value(graph.nodes[n]) for n in _constants(graph)}
        with tf.init_scope(), tf.device(device or None):
            held = {f"{name}:0": tf.identity(number) for name, number in numbers.items()}
        names = graph.needed(graph.outputs) - set(numbers)

        def body(*flat: Tensor) -> list[Tensor]:
            current = tf.compat.v1.get_default_graph()
            feeds = dict(zip((f"{name}:0" for name in graph.arguments), flat, strict=True))
            feeds |= {name: current.capture(number) for name, number in held.items()}
            return replay(placed, names, feeds, graph.outputs)

        with tf.init_scope():
            function = trace("uncork_last_map", argument_specs(graph), body)
        return lambda given: self._packed(function(*tf.nest.flatten(given)))

    def _packed(self, flat: Sequence[Tensor]) -> Any:
        return tf.nest.pack_sequence_as(self.structure, flat)


def last_map(pipeline: Pipeline) -> LastMap | None:
    """The last map of a pipeline, where another device could do its work.

    Returns:
        None where something else is done behind it, or where it draws, keeps state, runs Python,
        takes or gives anything but plain numbers, or does more than casting, scaling and moving.

    Example:
        >>> pixels = tf.data.Dataset.from_tensors(tf.zeros([4, 4], tf.uint8)).batch(2)
        >>> found = last_map(read(pixels.map(lambda x: tf.cast(x, tf.float32) / 255).prefetch(1)))
        >>> found.below.element_spec.dtype, found.structure.dtype, found.widens
        (tf.uint8, tf.float32, True)
    """
    chain = pipeline.stages
    at = len(chain) - 1
    while at > 0 and chain[at].kind in _HANDING_ON:
        at -= 1
    node = chain[at]
    if node.kind != "map" or not node.inputs or not _runs_anywhere(node):
        return None
    below = onto(node.inputs[0].dataset, chain[at + 1 :])
    if fused_shuffles(read(below)) != fused_shuffles(pipeline):
        return None  # a shuffle and a repeat that this map keeps apart
    return LastMap(node.functions[0], node.dataset.element_spec, below)


def in_step(place: Place, *, stacked: bool) -> str:
    """Digest of the work of a map that the training step could do, with fewer bytes to be sent.

    Args:
        place: Of the map.
        stacked: It can be moved above its batch, in whole or in part.

    Returns:
        ``""`` where it could not.
    """
    whole, above = place.pipeline.outermost, place.pipeline.stages[place.position + 1 :]
    if place.pipeline is not whole or place.node.kind != "map" or any(map(_is_map, above)):
        return ""
    with suppress(EditRefused):
        edit = VectorizeMap(stage=whole.places.index(place), expects=whole.digest)
        found = last_map(apply(whole, edit) if stacked else whole)
        if found is not None and found.widens:
            return found.digest
    return ""


def _constants(graph: Graph) -> Iterator[str]:
    """Of floating point; whole numbers may be axes and shapes, which must be known beforehand."""
    for name, node in graph.nodes.items():
        if node.op == "Const" and tf.as_dtype(node.attr["dtype"].type).is_floating:
            yield name


def _value(constant: NodeDef) -> Any:
    return tf.make_ndarray(constant.attr["value"].tensor)


def _is_map(node: Node) -> bool:
    return node.kind == "map"


def _runs_anywhere(node: Node) -> bool:
    """Wherever the training step runs, it can do this map's work, and to the same effect."""
    function = node.functions[0]
    graph = graph_of(function)
    specs = tf.nest.flatten((node.inputs[0].dataset.element_spec, node.dataset.element_spec))
    held = graph.captures.values()
    return (
        is_order_free(function)
        and not graph.effects
        and all(map(_is_plain, specs))
        and all(_is_number(outer.dtype) and hasattr(outer, "numpy") for outer in held)
        and sum(outer.dtype.size * outer.shape.num_elements() for outer in held) <= _MOST_HELD
        and {node.op for node in graph.nodes.values()} <= _ANYWHERE
    )


def _is_plain(spec: Any) -> bool:
    return isinstance(spec, tf.TensorSpec) and _is_number(spec.dtype)


def _is_number(dtype: tf.DType) -> bool:
    return dtype not in (tf.string, tf.variant, tf.resource)


def _size(structure: Any) -> float:
    """Bytes of an element; dimensions that are not known count as 64."""
    return sum(
        float(spec.dtype.size * math.prod(_UNKNOWN if d is None else d for d in spec.shape))
        if spec.shape.rank is not None
        else math.inf
        for spec in tf.nest.flatten(structure)
    )
