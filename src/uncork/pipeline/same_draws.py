"""A map that draws the same numbers in each pass although it was meant to draw new ones.

An op that draws by a seed keeps its place in the kernel, and each pass over a dataset makes its
kernels anew: the draws begin again. Where a global seed is set, TensorFlow gives one to every op.
"""

from __future__ import annotations

from typing import Final

from uncork.pipeline.effects import DRAWS, PYTHON_OPS
from uncork.pipeline.frozen import MOVES, is_moving_source
from uncork.pipeline.graphs import ConcreteFunction, NodeDef, graph_of
from uncork.pipeline.node import Node
from uncork.pipeline.order import keeps_order
from uncork.pipeline.raw_ops import reshuffles

# What they give is Python's business, or nobody's that is known here.
_UNKNOWN: Final = frozenset({"opaque", "from_generator"})


def draws_alike(node: Node, *, ordered: bool = True) -> bool:
    """A map whose elements come in the same order in each pass, and get the same draws.

    Below a reshuffling shuffle, or with seeds that a generator hands out, each pass is another one.
    Where calls run side by side, neighbours may swap their draws.

    Args:
        node: Of the user's own pipeline.
        ordered: The pipeline's options let no element overtake another.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.tree import read
        >>> def add_noise(x):
        ...     return tf.cast(x, tf.float32) + tf.random.normal([], seed=1)
        >>> numbers = tf.data.Dataset.range(3)
        >>> draws_alike(read(numbers.map(add_noise)).root)
        True
        >>> draws_alike(read(numbers.shuffle(3).map(add_noise)).root)
        False
    """
    is_random_map = node.kind == "map" and any(map(_draws_by_seed, node.functions))
    return is_random_map and all(_comes_alike(below, ordered) for below in node.inputs)


def _draws_by_seed(function: ConcreteFunction) -> bool:
    """It draws, and each op that does has a seed of its own or from the global one."""
    nodes = _nodes(function)
    draws = [node for node in nodes if node.op in DRAWS]
    return bool(draws) and all(map(_is_seeded, draws)) and not _goes_on(nodes)


def _is_seeded(node: NodeDef) -> bool:
    return bool(node.attr["seed"].i or node.attr["seed2"].i)


def _goes_on(nodes: list[NodeDef]) -> bool:
    """Something in it is another one in each pass, or may be."""
    return any(node.op in MOVES or node.op in PYTHON_OPS for node in nodes)


def _comes_alike(node: Node, ordered: bool) -> bool:
    """The same elements in the same order in each pass, as far as that is certain."""
    if node.kind == "cache":
        return True  # the order of its first pass
    if node.kind in _UNKNOWN or is_moving_source(node) or not keeps_order(node, ordered=ordered):
        return False
    if node.kind == "shuffle" and reshuffles(node.dataset):
        return False
    alike = all(_is_alike(function) for function in node.functions)
    return alike and all(_comes_alike(below, ordered) for below in node.inputs)


def _is_alike(function: ConcreteFunction) -> bool:
    nodes = _nodes(function)
    return not _goes_on(nodes) and all(_is_seeded(n) for n in nodes if n.op in DRAWS)


def _nodes(function: ConcreteFunction) -> list[NodeDef]:
    graph = graph_of(function)
    inner = (node for each in graph.library.values() for node in each.node_def)
    return [*graph.nodes.values(), *inner]
