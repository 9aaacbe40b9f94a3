"""What a cache keeps for ever although it was meant to be drawn anew in every epoch.

A map that draws the same numbers in each pass although it was meant to draw new ones.

An op that draws by a seed keeps its place in the kernel, and each pass over a dataset makes its
kernels anew: the draws begin again. Where a global seed is set, TensorFlow gives one to every op.
"""

from __future__ import annotations

from typing import Final

from uncork.compat.tfdata.dataset_classes import RandomDataset
from uncork.compat.tfdata.dataset_fields import parameter
from uncork.compat.tfdata.dataset_ops import is_reshuffling
from uncork.pipeline.functions.effects import RANDOM_OPS, can_overlap, op_types, stateful_ops
from uncork.pipeline.functions.function_graph import ConcreteFunction, Graph, NodeDef, graph_of
from uncork.pipeline.ir.element_order import is_order_preserved
from uncork.pipeline.ir.node import Node

# Of ``tf.random.Generator``, whose state moves on from draw to draw.
_GENERATORS: Final = frozenset({
    "RngReadAndSkip", "RngSkip", "StatefulUniform", "StatefulUniformInt", "StatefulUniformFullInt",
    "StatefulStandardNormalV2", "StatefulTruncatedNormal", "StatefulRandomBinomial",
})  # fmt: skip
# Keras's seed generators: a variable is moved on, and a stateless op drawn from with it.
_VARIABLES: Final = frozenset({"AssignVariableOp", "AssignAddVariableOp"})
# What of a function goes on from pass to pass.
STATE_CHANGING_OPS: Final = _GENERATORS | _VARIABLES


def has_frozen_randomness(node: Node) -> bool:
    """A cache with something below it that draws other numbers in each pass.

    Only what certainly draws counts: Python code may or may not, and a shuffle below a cache is an
    order drawn once, which people choose on purpose.
    """
    return node.kind == "cache" and any(_draws_below(below) for below in node.inputs)


def _draws_below(node: Node) -> bool:
    if node.kind == "cache":
        return False  # that one is to blame
    return _draws(node) or any(map(_draws_below, node.inputs))


def is_rerandomized_source(node: Node) -> bool:
    """Numbers drawn at random, others in each pass."""
    return type(node.dataset) is RandomDataset and bool(parameter(node.dataset, "rerandomize"))


def _draws(node: Node) -> bool:
    if is_rerandomized_source(node):
        return True
    ops = frozenset[str]().union(*map(op_types, node.functions))
    by_variable = bool(ops & _VARIABLES) and any(op.startswith("StatelessRandom") for op in ops)
    return by_variable or bool(ops & (RANDOM_OPS | _GENERATORS))


# What they give is Python's business, or nobody's that is known here.
_UNKNOWN: Final = frozenset({"opaque", "from_generator"})
# They look at no more of an element than how large it is.
_SIZES: Final = frozenset({"Shape", "ShapeN", "Size", "Rank"})


def has_repeating_randomness(node: Node, *, is_ordered: bool = True) -> bool:
    """A map whose elements come in the same order in each pass, and get the same draws.

    Above a reshuffling shuffle, or with seeds that a generator hands out, each pass is another one;
    so it is where calls run side by side, as threads race for the draws. A map that makes its
    elements out of nothing but draws is left alone: whoever makes data up wants it again.

    Args:
        node: Of the user's own pipeline.
        is_ordered: The pipeline's options let no element overtake another.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> def add_noise(x):
        ...     return tf.cast(x, tf.float32) + tf.random.normal([], seed=1)
        >>> numbers = tf.data.Dataset.range(3)
        >>> has_repeating_randomness(read_pipeline(numbers.map(add_noise)).root)
        True
        >>> has_repeating_randomness(read_pipeline(numbers.shuffle(3).map(add_noise)).root)
        False
    """
    in_turn = node.kind == "map" and node.parallelism == 1
    if not in_turn or not any(map(_varies_its_element, node.functions)):
        return False
    alike = all(map(_is_alike, node.functions))
    return alike and all(_comes_alike(below, is_ordered) for below in node.inputs)


def _varies_its_element(function: ConcreteFunction) -> bool:
    """Something of what it gives depends on a draw, and on the element that it was given."""
    graph = graph_of(function)
    draws = stateful_ops(graph)
    return any(_meet(graph, output, draws) for output in graph.outputs)


def _meet(graph: Graph, output: str, draws: set[str]) -> bool:
    sizes = [f"{name}:0" for name, node in graph.nodes.items() if node.op in _SIZES]
    needed = graph.required_ops([output], stop=sizes, with_control_inputs=False)
    return bool(needed & draws) and bool(needed & set(graph.arguments))


def _is_seeded(node: NodeDef) -> bool:
    return bool(node.attr["seed"].i or node.attr["seed2"].i)


def _comes_alike(node: Node, ordered: bool) -> bool:
    """The same elements in the same order in each pass, as far as that is certain."""
    if node.kind == "cache":
        return True  # the order of its first pass
    if (
        node.kind in _UNKNOWN
        or is_rerandomized_source(node)
        or not is_order_preserved(node, is_ordered=ordered)
    ):
        return False
    if node.kind == "shuffle" and is_reshuffling(node.dataset):
        return False
    alike = all(map(_is_alike, node.functions))
    return alike and all(_comes_alike(below, ordered) for below in node.inputs)


def _is_alike(function: ConcreteFunction) -> bool:
    """The same in each pass: whatever it draws has a seed, of its own or from the global one."""
    if not can_overlap(function) or op_types(function) & (STATE_CHANGING_OPS | {"ReadVariableOp"}):
        return False
    return all(_is_seeded(node) for node in _nodes(function) if node.op in RANDOM_OPS)


def _nodes(function: ConcreteFunction) -> list[NodeDef]:
    graph = graph_of(function)
    inner = (node for each in graph.library.values() for node in each.node_def)
    return [*graph.nodes.values(), *inner]
