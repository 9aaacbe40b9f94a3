"""A pipeline over a part of its data, for what would take all day with the whole of it.

What a cache does shows only when it was filled and is read again, and filling it takes a whole pass
over the data. So it is tried on some of them: each source gives every n-th of its elements, so that
data that lie in some order are met from all over it, and all that stands above does to them what it
does. What skips or takes elements at the source is part of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import rebuild
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.python_functions import has_memoized_python
from uncork.pipeline.ir.tree import Pipeline, read_pipeline

_TAKING: Final = frozenset({"take", "skip", "shard"})
_COUNTING: Final = frozenset({"assert_cardinality", "choose"})


def take_every_nth(pipeline: Pipeline, nth: int, *, is_repeated: bool = False) -> Pipeline | None:
    """The same work on every n-th element of each source.

    Args:
        pipeline: Nothing of which was read yet: shuffles and caches begin anew.
        nth: That number, at least 2.
        is_repeated: What the caches keep, or the sources where none does, is given again and again,
            so that a pass is about as long as it was.

    Returns:
        None where a source cannot be cut: its length is not known, or it is as short as it can be;
        where a cache is no one pass's own, in a file or in Python; or where a stage tells how long
        its input is, or which of several inputs comes next.

    Example:
        >>> import tensorflow as tf
        >>> numbers = read_pipeline(tf.data.Dataset.range(80).cache().batch(4))
        >>> [take_every_nth(numbers, 4, is_repeated=again).cardinality for again in (False, True)]
        [5, 20]
    """
    nodes = [place.node for place in pipeline.stage_locations]
    sources = list(_sources(pipeline.root))
    lengths = [int(source.dataset.cardinality()) for source in sources]
    if any(_stays(node) for node in nodes) or min(lengths) < 0 or max(lengths) < 2:
        return None
    if any(_keeps(below) for source in sources for below in source.inputs):
        return None
    return read_pipeline(
        _Shortening(nth, nth if is_repeated else 1).visit(pipeline.root, covered=False)
    )


class _Shortening:
    """Makes it, node by node."""

    def __init__(self, parts: int, times: int) -> None:
        self._parts = parts
        self._times = times
        # What several branches read is made once: they share its cache and its epochs.
        self._done: dict[tuple[int, bool], Dataset] = {}

    def visit(self, node: Node, *, covered: bool) -> Dataset:
        """A node's new dataset.

        Args:
            node: Which.
            covered: A cache above it is repeated.
        """
        key = id(node.dataset), covered and self._times > 1
        if key not in self._done:
            is_source, is_cache = _is_source(node), node.kind == "cache"
            if is_source:
                made = self._cut(node.dataset)
            else:
                below = [self.visit(each, covered=covered or is_cache) for each in node.inputs]
                made = rebuild(node.dataset, below)
            if not covered and self._times > 1 and (is_cache or is_source):
                made = made.repeat(self._times)
            self._done[key] = made
        return self._done[key]

    def _cut(self, dataset: Dataset) -> Dataset:
        return dataset.shard(self._parts, 0) if int(dataset.cardinality()) > 1 else dataset


def _sources(node: Node) -> Iterator[Node]:
    """What is cut."""
    if _is_source(node):
        yield node
    else:
        for each in node.inputs:
            yield from _sources(each)


def _is_source(node: Node) -> bool:
    """It has no input, or takes a part of one: parts of that would be others."""
    return not node.inputs or node.kind in _TAKING


def _keeps(node: Node) -> bool:
    return node.kind == "cache" or any(_keeps(below) for below in node.inputs)


def _stays(node: Node) -> bool:
    """It cannot be made anew, or what it keeps is not one pass's own, or it counts or chooses."""
    unknown = bool(node.inputs) and kind_of(node.dataset).create_variant is None
    lasting = has_memoized_python(node) or (node.kind == "cache" and not node.is_memory_cache)
    return unknown or lasting or node.kind in _COUNTING
