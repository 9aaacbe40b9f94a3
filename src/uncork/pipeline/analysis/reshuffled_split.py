"""Is one dataset parted anew in each pass? Then what was held out is trained on an epoch later.

``take`` and ``skip`` count elements. Above a shuffle that puts them in another order in each pass
they part other elements each time: the validation of one epoch is training data of the next, and
the part that is read first in an epoch does not know what the other one read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from uncork.compat.tfdata.dataset_fields import int_parameter
from uncork.compat.tfdata.dataset_ops import is_reshuffling
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline

# They choose elements by their place.
_PARTS: Final = frozenset({"take", "skip", "shard"})


class ReshuffledSplit(NamedTuple):
    """Two parts that are to share nothing, and do.

    Attributes:
        shuffle: Puts what is parted in another order in each pass.
        parts: The stages that part it, of either pipeline.
    """

    shuffle: Node
    parts: tuple[Node, Node]


def find_reshuffled_split(first: Pipeline, second: Pipeline) -> ReshuffledSplit | None:
    """Where two pipelines read parts of one dataset whose order is another one in each pass.

    Args:
        first: Read from the script's own datasets; copies of them share nothing.
        second: Likewise.

    Returns:
        None where they do not, as far as can be told: where the parts overlap on purpose, where
        they are chosen by what elements are, or where a cache that both read keeps the order.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> rows = tf.data.Dataset.range(10).shuffle(10)
        >>> found = find_reshuffled_split(read_pipeline(rows.skip(3)), read_pipeline(rows.take(3)))
        >>> [part.kind for part in found.parts], found.shuffle.kind
        (['skip', 'take'], 'shuffle')
        >>> kept = tf.data.Dataset.range(10).shuffle(10, reshuffle_each_iteration=False)
        >>> find_reshuffled_split(read_pipeline(kept.skip(3)), read_pipeline(kept.take(3))) is None
        True
    """
    others = list(_parting(second.root))
    for part in _parting(first.root):
        shuffle = _shuffle_below(part)
        for beside in others:
            same = part.inputs[0].dataset is beside.inputs[0].dataset
            if shuffle is not None and same and _are_apart(part, beside):
                return ReshuffledSplit(shuffle, (part, beside))
    return None


def _parting(node: Node) -> Iterator[Node]:
    if node.kind in _PARTS:
        yield node
    for below in node.inputs:
        yield from _parting(below)


def _shuffle_below(node: Node) -> Node | None:
    """The next one whose order is another in each pass; a cache keeps the order of its first."""
    for below in node.inputs:
        if below.kind == "cache":
            continue
        if below.kind == "shuffle" and _deals_anew(below):
            return below
        found = _shuffle_below(below)
        if found is not None:
            return found
    return None


def _deals_anew(shuffle: Node) -> bool:
    """Another order in each pass, of more than one element."""
    several = (
        int_parameter(shuffle.dataset, "buffer_size") > 1
        and abs(int(shuffle.dataset.cardinality())) != 1
    )
    return is_reshuffling(shuffle.dataset) and several


def _are_apart(one: Node, other: Node) -> bool:
    """They would share nothing, were the order the same."""
    kinds = {one.kind, other.kind}
    if kinds == {"take", "skip"}:
        take, skip = (one, other) if one.kind == "take" else (other, one)
        return 0 <= int_parameter(take.dataset, "count") <= int_parameter(skip.dataset, "count")
    if kinds == {"shard"}:
        same_number = int_parameter(one.dataset, "num_shards") == int_parameter(
            other.dataset, "num_shards"
        )
        return same_number and int_parameter(one.dataset, "index") != int_parameter(
            other.dataset, "index"
        )
    return False
