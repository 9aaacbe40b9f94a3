"""Pipelines whose author lets faster elements overtake slower ones: ``deterministic=False``.

Which order they come in is left to the threads then. An edit may not be compared with that; it is
compared in order, and what it makes of the order is nobody's promise.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import make, rebuild
from uncork.compat.tfdata.hidden_settings import interleave_determinism
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline, read, remade

_INTERLEAVE = "_ParallelInterleaveDataset"


def ordered_by_default(pipeline: Pipeline) -> bool:
    """False when the options of the whole pipeline let faster elements overtake."""
    return pipeline.outermost.options.deterministic is not False


def keeps_order(node: Node, *, ordered: bool = True) -> bool:
    """No faster element may overtake: neither by this node's flag nor by the options.

    Args:
        node: Without what lies below it.
        ordered: :func:`ordered_by_default` of the pipeline it is part of.
    """
    own = _determinism(node.dataset)
    # TensorFlow runs serial maps in parallel where nothing forbids it.
    if own == "default" and (_in_parallel(node) or node.kind == "map"):
        return ordered
    return own != "false"


def _in_parallel(node: Node) -> bool:
    """Itself, or what a reader of several files is made of."""
    inner = vars(node.dataset).get("_impl")
    within = None if inner is None else read(inner).root.parallelism
    return node.parallelism not in (None, 1) or within not in (None, 1)


def leaves_order_open(pipeline: Pipeline) -> bool:
    """Two passes may give their elements in another order by leave of the script.

    Example:
        >>> from uncork.pipeline.ir.tree import read
        >>> numbers = tf.data.Dataset.range(9)
        >>> loose = numbers.map(lambda x: x, num_parallel_calls=2, deterministic=False)
        >>> leaves_order_open(read(loose)), leaves_order_open(read(numbers))
        (True, False)
    """
    ordered = ordered_by_default(pipeline)
    return not all(keeps_order(place.node, ordered=ordered) for place in pipeline.places)


def in_order(pipeline: Pipeline) -> Dataset:
    """A pipeline's dataset whose elements come in order, the same work done in parallel.

    Args:
        pipeline: Nothing of which was read yet: shuffles and caches begin anew.

    Example:
        >>> from uncork.pipeline.ir.tree import read
        >>> loose = tf.data.Options()
        >>> loose.deterministic = False
        >>> numbers = tf.data.Dataset.range(3).map(lambda x: x + 1, 2).with_options(loose)
        >>> [int(x) for x in in_order(read(numbers))]
        [1, 2, 3]
    """
    if not leaves_order_open(pipeline):
        return pipeline.dataset
    options = tf.data.Options()
    options.deterministic = True
    return remade(pipeline.root, _in_turn).with_options(options)


def _determinism(dataset: Dataset) -> str:
    dataset = vars(dataset).get("_impl", dataset)
    if type(dataset).__name__ == _INTERLEAVE:
        return interleave_determinism(dataset)
    return str(getattr(dataset, "_deterministic", "default"))


def _in_turn(node: Node, inputs: Sequence[Dataset]) -> Dataset:
    dataset = node.dataset
    if kind_of(dataset).op is None or not inputs:
        return dataset
    if _determinism(dataset) != "false":
        return rebuild(dataset, inputs)
    name = "_uncork_deterministic" if type(dataset).__name__ == _INTERLEAVE else "_deterministic"
    return make(dataset, inputs, kind_of(dataset), **{name: "true"})
