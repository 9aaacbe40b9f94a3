"""A pipeline over a part of its data, for what would take all day with the whole of it.

What a cache does shows only when it was filled and is read again, and filling it takes a whole pass
over the data. So it is tried on some of them: each source gives its first elements, and all that
stands above does to them what it does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from uncork.pipeline.kinds import Dataset, kind_of
from uncork.pipeline.node import Node
from uncork.pipeline.python_calls import keeps_python
from uncork.pipeline.rebuild import rebuild
from uncork.pipeline.tree import Pipeline, read


def shortened(pipeline: Pipeline, share: float, *, repeated: bool = False) -> Pipeline | None:
    """The same work on the first elements of each source.

    Args:
        pipeline: Nothing of which was read yet: shuffles and caches begin anew.
        share: Of each source, more than 0 and at most 1.
        repeated: What the caches keep, or the sources where none does, is given again and again,
            so that a pass is about as long as it was.

    Returns:
        None where a source cannot be cut: its length is not known, or it is as short as it can be;
        or where a cache is no one pass's own, in a file or in Python.

    Example:
        >>> import tensorflow as tf
        >>> numbers = read(tf.data.Dataset.range(80).cache().batch(4))
        >>> [shortened(numbers, 0.25, repeated=again).cardinality for again in (False, True)]
        [5, 20]
    """
    nodes = [place.node for place in pipeline.places]
    sources = [node for node in nodes if not node.inputs]
    lengths = [int(source.dataset.cardinality()) for source in sources]
    if any(_stays(node) for node in nodes) or min(lengths) < 0 or max(lengths) < 2:
        return None
    if all(_part(length, share) == length for length in lengths):
        return None
    times = math.ceil(1 / share) if repeated else 1
    return read(_Shortening(share, times).visit(pipeline.root, covered=False))


class _Shortening:
    """Makes it, node by node."""

    def __init__(self, share: float, times: int) -> None:
        self._share = share
        self._times = times
        # What several branches read is made once: they share its cache and its epochs.
        self._done: dict[tuple[int, bool], Dataset] = {}

    def visit(self, node: Node, *, covered: bool) -> Dataset:
        """A node's new dataset.

        Args:
            node: Which.
            covered: A cache above it is repeated.
        """
        key = id(node.dataset), covered
        if key not in self._done:
            is_cache = node.kind == "cache"
            inputs = [self.visit(each, covered=covered or is_cache) for each in node.inputs]
            made = self._made(node, inputs)
            if not covered and self._times > 1 and (is_cache or not inputs):
                made = made.repeat(self._times)
            self._done[key] = made
        return self._done[key]

    def _made(self, node: Node, inputs: Sequence[Dataset]) -> Dataset:
        if inputs:
            return rebuild(node.dataset, inputs)
        length = int(node.dataset.cardinality())
        part = _part(length, self._share)
        return node.dataset if part == length else node.dataset.take(part)


def _part(length: int, share: float) -> int:
    return max(1, math.ceil(share * length))


def _stays(node: Node) -> bool:
    """It cannot be made anew, or what it keeps is not one pass's own."""
    unknown = bool(node.inputs) and kind_of(node.dataset).op is None
    return unknown or keeps_python(node) or (node.kind == "cache" and not node.in_memory)
