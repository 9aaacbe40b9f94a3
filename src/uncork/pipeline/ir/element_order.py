"""Pipelines whose author lets faster elements overtake slower ones: ``deterministic=False``.

Which order they come in is left to the threads then. An edit may not be compared with that; it is
compared in order, and what it makes of the order is nobody's promise.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import (
    ParallelInterleaveDataset,
    implementation_of,
    kind_of,
)
from uncork.compat.tfdata.dataset_fields import parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import copy_with_fields, rebuild
from uncork.compat.tfdata.hidden_settings import interleave_determinism
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline, read_pipeline, rebuild_tree


def is_ordered_by_default(pipeline: Pipeline) -> bool:
    """False when the options of the whole pipeline let faster elements overtake."""
    return pipeline.outermost.options.deterministic is not False


def is_order_preserved(node: Node, *, is_ordered: bool = True) -> bool:
    """No faster element may overtake: neither by this node's flag nor by the options.

    Args:
        node: Without what lies below it.
        is_ordered: :func:`is_ordered_by_default` of the pipeline it is part of.
    """
    own = _determinism(node.dataset)
    # TensorFlow runs serial maps in parallel where nothing forbids it.
    if own == "default" and (_in_parallel(node) or node.kind == "map"):
        return is_ordered
    return own != "false"


def _in_parallel(node: Node) -> bool:
    """Itself, or what a reader of several files is made of."""
    inner = implementation_of(node.dataset)
    within = None if inner is None else read_pipeline(inner).root.parallelism
    return node.parallelism not in (None, 1) or within not in (None, 1)


def has_nondeterministic_order(pipeline: Pipeline) -> bool:
    """Two passes may give their elements in another order by leave of the script.

    Example:
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> numbers = tf.data.Dataset.range(9)
        >>> loose = numbers.map(lambda x: x, num_parallel_calls=2, deterministic=False)
        >>> (
        ...     has_nondeterministic_order(read_pipeline(loose)),
        ...     has_nondeterministic_order(read_pipeline(numbers)),
        ... )
        (True, False)
    """
    ordered = is_ordered_by_default(pipeline)
    return not all(
        is_order_preserved(place.node, is_ordered=ordered) for place in pipeline.stage_locations
    )


def with_deterministic_order(pipeline: Pipeline) -> Dataset:
    """A pipeline's dataset whose elements come in order, the same work done in parallel.

    Args:
        pipeline: Nothing of which was read yet: shuffles and caches begin anew.

    Example:
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> loose = tf.data.Options()
        >>> loose.deterministic = False
        >>> numbers = tf.data.Dataset.range(3).map(lambda x: x + 1, 2).with_options(loose)
        >>> [int(x) for x in with_deterministic_order(read_pipeline(numbers))]
        [1, 2, 3]
    """
    if not has_nondeterministic_order(pipeline):
        return pipeline.dataset
    options = tf.data.Options()
    options.deterministic = True
    return rebuild_tree(pipeline.root, _in_turn).with_options(options)


def _determinism(dataset: Dataset) -> str:
    dataset = implementation_of(dataset) or dataset
    if type(dataset) is ParallelInterleaveDataset:
        return interleave_determinism(dataset)
    return str(parameter(dataset, "deterministic", "default"))


def _in_turn(node: Node, inputs: Sequence[Dataset]) -> Dataset:
    dataset = node.dataset
    if kind_of(dataset).create_variant is None or not inputs:
        return dataset
    if _determinism(dataset) != "false":
        return rebuild(dataset, inputs)
    if type(dataset) is ParallelInterleaveDataset:
        return copy_with_fields(dataset, inputs, kind_of(dataset), _uncork_deterministic="true")
    return copy_with_fields(dataset, inputs, kind_of(dataset), deterministic="true")
