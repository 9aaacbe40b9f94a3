"""Make a whole pipeline anew, node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uncork.pipeline.kinds import Dataset
from uncork.pipeline.node import Node


def remade(root: Node, make: Callable[[Node, Sequence[Dataset]], Dataset]) -> Dataset:
    """The root's dataset after every node was made anew, sources first.

    A dataset that several branches read is made once: they share its cache and its epochs, as they
    did.

    Args:
        root: Of the pipeline.
        make: Gives a node's new dataset, from the node and its new inputs.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.tree import read
        >>> numbers = read(tf.data.Dataset.range(5).batch(2))
        >>> remade(numbers.root, lambda node, inputs: node.dataset) is numbers.dataset
        True
    """
    done: dict[int, Dataset] = {}

    def visit(node: Node) -> Dataset:
        key = id(node.dataset)
        if key not in done:
            done[key] = make(node, [visit(below) for below in node.inputs])
        return done[key]

    return visit(root)
