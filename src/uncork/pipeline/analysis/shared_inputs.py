"""Elements that are made several times over: one dataset behind several branches of a ``zip``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from uncork.pipeline.ir.node import Node

# Between a zip and what its branches share: one element in, one element out, in order.
_ONE_TO_ONE: Final = frozenset({"map", "prefetch", "options"})


@dataclass(frozen=True)
class SharedInput:
    """A dataset that several branches read, each of which makes its elements anew.

    Attributes:
        node: The dataset.
        branch_count: How many branches read it.
        second_reader: Of the second of them, what reads it: the line to blame.
    """

    node: Node
    branch_count: int
    second_reader: Node


def find_shared_input(node: Node) -> SharedInput | None:
    """What the branches of a ``zip`` share; None where they do not, or are of another kind.

    Branches that shuffle, skip or repeat need their own pass over the data.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> numbers = tf.data.Dataset.range(4).map(lambda x: 2 * x)
        >>> both = tf.data.Dataset.zip((numbers, numbers.map(lambda x: x + 1)))
        >>> find_shared_input(read_pipeline(both).root).branch_count
        2
    """
    if node.kind != "zip":
        return None
    paths = [_straight(branch) for branch in node.inputs]
    readers = Counter(id(below.dataset) for path in paths for below in path)
    for below in paths[0] if paths else ():
        times = readers[id(below.dataset)]
        if times > 1:
            return SharedInput(below, times, _reader(paths, below))
    return None


def _straight(branch: Node) -> list[Node]:
    """A branch and what lies below it, as long as each element comes from one."""
    path = [branch]
    while path[-1].kind in _ONE_TO_ONE and len(path[-1].inputs) == 1:
        path.append(path[-1].inputs[0])
    return path


def _reader(paths: list[list[Node]], shared: Node) -> Node:
    """The node above the shared one in the second branch that has it."""
    found = []
    for path in paths:
        ids = [id(node.dataset) for node in path]
        if id(shared.dataset) in ids:
            at = ids.index(id(shared.dataset))
            found.append(path[max(0, at - 1)])
    return found[1]
