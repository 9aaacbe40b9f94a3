"""What tf.data's autotuner chose, read from the model that it keeps of a running pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tf.protos import ModelProto
from uncork.compat.tfdata.iterators import resource_of
from uncork.core.base.errors import MissingPrivateApi
from uncork.core.evidence.stage import AUTOTUNE
from uncork.pipeline.analysis.legality import is_parallel_by_default
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline

_CALLS: Final = "parallelism"
# How names begin in the autotuner's model, which knows of a map and a batch as one.
_NAMES: Final = {
    "map": ("Map", "ParallelMap"),
    "interleave": ("ParallelInterleave",),
    "batch": ("ParallelBatch", "Batch"),
}
_MAKES_DATASETS: Final = re.compile("(?:Parallel|Legacy)*(?:Interleave|FlatMap)")


def autotuned_parallelism(pipeline: Pipeline, iterator: Any) -> dict[int, int]:
    """Calls at once that the autotuner chose so far, by the indices of stages it may choose for.

    Args:
        pipeline: That is read.
        iterator: Of its dataset, which has given some elements.

    Returns:
        Nothing where nothing is left to the autotuner, or its model does not look like the
        pipeline.

    Example:
        >>> numbers = tf.data.Dataset.range(99).map(abs, num_parallel_calls=tf.data.AUTOTUNE)
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> reading = iter(numbers)
        >>> first = next(reading)
        >>> list(autotuned_parallelism(read_pipeline(numbers), reading))
        [1]
    """
    indices = {id(place.node): index for index, place in enumerate(pipeline.stage_locations)}
    tuned = [node for node in _down(pipeline.root) if _is_tuned(node, pipeline.options)]
    if not tuned or len(indices) != len(pipeline.stage_locations):
        return {}
    seen = [model for model in _model(iterator) if _value(model) is not None]
    if len(seen) != len(tuned):
        return {}
    pairs = list(zip(tuned, seen, strict=True))
    if not all(model.name.startswith(_NAMES.get(node.kind, ())) for node, model in pairs):
        return {}
    return {indices[id(node)]: round(_value(model) or 1) for node, model in pairs}


def _is_tuned(node: Node, options: tf.data.Options) -> bool:
    return node.parallelism == AUTOTUNE or is_parallel_by_default(node, options)


def _down(node: Node) -> Iterator[Node]:
    """From what is read down to the sources, branches in their order."""
    yield node
    for below in node.inputs:
        yield from _down(below)


def _model(iterator: Any) -> Iterator[Any]:
    """The autotuner's nodes in the same order; none where it is off."""
    read_model = getattr(tf.raw_ops, "IteratorGetModelProto", None)
    if read_model is None:
        return
    with suppress(tf.errors.OpError, AttributeError, MissingPrivateApi):
        text = read_model(iterator=resource_of(iterator)).numpy()
        model = ModelProto.FromString(text)
        yield from _below(model.nodes, model.output)


def _below(nodes: Mapping[int, Any], number: int) -> Iterator[Any]:
    node = nodes[number]
    yield node
    # Of what makes datasets, those come behind what it makes them from, and are no stages.
    for each in node.inputs[:1] if _MAKES_DATASETS.match(node.name) else node.inputs:
        yield from _below(nodes, each)


def _value(model: Any) -> float | None:
    """Of what may be tuned: the number in force."""
    return next((p.state_value for p in model.parameters if p.name == _CALLS and p.tunable), None)
