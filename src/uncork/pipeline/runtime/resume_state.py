"""Let a rewritten pipeline continue exactly where the script's own pipeline is.

A seeded shuffle with a new order every epoch counts its epochs in a generator that belongs to the
dataset object. A script that looks at one batch before training has used up the first order. The
rewritten shuffle would start at the first again; sharing the user's generator prevents that.

Another generator that belongs to the object is that of a shuffle without a seed which keeps one
order. A script may take its validation from it and train on what it skips: a copy with an order of
its own would train on both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_fields import parameter, serialized_graph
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import ORIGINAL_ATTRIBUTE, copy_with_fields, rebuild
from uncork.core.base.errors import EditRefused
from uncork.pipeline.functions.function_graph import op_name_of
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline, read_pipeline, rebuild_tree

# The generator's handle can only be read from the serialized pipeline, which holds all in-memory
# arrays; beyond this (and the format's limit of 2 GB) nobody knows how many epochs it has counted.
_SERIALIZED_LIMIT_BYTES: Final = 1 << 30


def continue_shuffles(pipeline: Pipeline) -> Pipeline:
    """The same pipeline, its rebuilt shuffles counting epochs together with the user's own.

    Call it last, on the pipeline that is to be trained on; not on one that is only tried.

    Args:
        pipeline: As left by the last edit; the user's datasets must not have been read since.

    Raises:
        EditRefused: An order that the user's datasets may share cannot be kept.
    """
    return read_pipeline(rebuild_tree(pipeline.root, _continue))


def continuation_refusal(pipeline: Pipeline) -> EditRefused | None:
    """Why :func:`continue_shuffles` would refuse a pipeline; None where it would not.

    Example:
        >>> numbers = tf.data.Dataset.from_tensor_slices([1, 2, 3]).shuffle(3, seed=1)
        >>> continuation_refusal(read_pipeline(numbers)) is None
        True
    """
    shuffles = (
        place.node.dataset for place in pipeline.stage_locations if place.node.kind == "shuffle"
    )
    originals = (shuffle.__dict__.get(ORIGINAL_ATTRIBUTE) for shuffle in shuffles)
    counted = (each for each in originals if each is not None and _is_counted(each))
    large = (each for each in counted if _holds_much(each))
    return next(map(_untold, large), None)


def _continue(node: Node, inputs: Sequence[Dataset]) -> Dataset:
    dataset = node.dataset
    if not inputs or kind_of(dataset).create_variant is None:
        return dataset
    original = dataset.__dict__.get(ORIGINAL_ATTRIBUTE)
    if node.kind != "shuffle" or original is None or not _is_counted(original):
        return rebuild(dataset, inputs)
    handle = _seed_generator(original)
    if handle is not None:
        return copy_with_fields(dataset, inputs, kind_of(dataset), _seed_generator=handle)
    raise _untold(original)


def _untold(shuffle: Dataset) -> EditRefused:
    if _keeps_order(shuffle):
        return EditRefused(
            "an unseeded shuffle keeps one order, which other datasets of the script may "
            "share, and its data are too large to read",
            "a shuffle with a seed, or a shuffle of file names instead of file contents",
            "add a seed: shuffle(..., seed=1, reshuffle_each_iteration=False)",
        )
    return EditRefused(
        "a seeded shuffle has a new order in each pass, and its data are too large to "
        "find out how many passes there were",
        "a shuffle of file names, of row numbers, or of less than 1 GB in memory",
        "keep the stages before and after it unchanged",
    )


def _is_counted(shuffle: Dataset) -> bool:
    """Its object owns a generator, that a copy would have to share."""
    return _is_seeded(shuffle) is not _keeps_order(shuffle)


def _is_seeded(shuffle: Dataset) -> bool:
    return bool(int(parameter(shuffle, "seed")) or int(parameter(shuffle, "seed2")))


def _keeps_order(shuffle: Dataset) -> bool:
    """Drawn once, for all that read it."""
    return parameter(shuffle, "reshuffle_each_iteration") is False


def _seed_generator(shuffle: Dataset) -> Any | None:
    """The resource in which the user's shuffle counts its epochs."""
    if _holds_much(shuffle):
        return None
    try:
        graph = serialized_graph(shuffle)
    except (tf.errors.OpError, ValueError, TypeError):
        return None  # larger than it looked, or not to be written
    nodes = {node.name: node for node in graph.node}
    own = [node for node in nodes.values() if node.op == "ShuffleDatasetV3"]
    return _as_tensor(nodes[op_name_of(own[-1].input[4])]) if own else None


def _as_tensor(constant: Any) -> Any:
    # Eager mode has no constants of resource type; a function's graph may hold one.
    def handle() -> Any:
        graph = tf.compat.v1.GraphDef(node=[constant])
        (tensor,) = tf.graph_util.import_graph_def(graph, return_elements=[f"{constant.name}:0"])
        return tensor

    with tf.device("/CPU:0"):
        return tf.function(handle, autograph=False)()


def _holds_much(dataset: Dataset) -> bool:
    return _array_bytes(read_pipeline(dataset).root) > _SERIALIZED_LIMIT_BYTES


def _array_bytes(node: Node) -> int:
    tensors = parameter(node.dataset, "tensors", ())
    own: int = sum(int(np.prod(t.shape)) * max(1, t.dtype.size) for t in tf.nest.flatten(tensors))
    return own + sum(map(_array_bytes, node.inputs))
