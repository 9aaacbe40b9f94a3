"""Larger batches, combined from the batches at the end of a pipeline."""

from __future__ import annotations

from typing import Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import Rebatch
from uncork.pipeline.functions.effects import op_types
from uncork.pipeline.ir.builders import autotuned_prefetch
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline

# Above the stage that makes batches: what hands each of them on, so that only the last is smaller.
_HANDING_ON: Final = ("map", "prefetch", "cache", "options", "model", "assert_cardinality")
_BATCHING: Final = ("batch", "padded_batch")
# With these a map may leave out some of a batch's samples, or make more of them.
_CHOOSING: Final = frozenset({
    "DynamicPartition", "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5",
    "Repeat", "Unique", "UniqueV2", "Where",
})  # fmt: skip


def apply_rebatch(pipeline: Pipeline, edit: Rebatch) -> Dataset:
    """The same samples in the same order, in batches of another size, prefetched.

    Raises:
        EditRefused: The batches cannot be combined, or have this size already.
    """
    reason = rebatch_refusal(pipeline)
    if reason:
        raise EditRefused(reason, "dense batches of one shape", "keep the batch unchanged")
    whole = _is_whole(pipeline, edit.batch_multiplier)
    larger = pipeline.dataset.rebatch(edit.batch_size, drop_remainder=whole)
    length = _length(pipeline, edit.batch_multiplier, whole)
    if length is not None:  # rebatching does not tell, and Keras counts by it
        larger = larger.apply(tf.data.experimental.assert_cardinality(length))
    return autotuned_prefetch(larger)


def rebatch_refusal(pipeline: Pipeline) -> str:
    """Part of a sentence; empty where batches can be put together."""
    specs = tf.nest.flatten(pipeline.dataset.element_spec, expand_composites=False)
    if not all(isinstance(spec, tf.TensorSpec) for spec in specs):
        return "its batches are ragged or sparse, or not tensors"
    if not all(spec.shape.rank and spec.shape[1:].is_fully_defined() for spec in specs):
        return "its batches differ in shape"
    return ""


def _is_whole(pipeline: Pipeline, times: int) -> bool:
    """All batches are of one size, and none is left over that would be dropped with its samples."""
    fixed = all(spec.shape[0] is not None for spec in tf.nest.flatten(pipeline.element_spec))
    batches = pipeline.cardinality
    return fixed and (
        batches == tf.data.INFINITE_CARDINALITY or (batches >= 0 and batches % times == 0)
    )


def _hands_on(node: Node) -> bool:
    """It gives a batch of as many samples for each that it takes, as far as that can be told."""
    return node.kind in _HANDING_ON and not any(op_types(f) & _CHOOSING for f in node.functions)


def _length(pipeline: Pipeline, times: int, whole: bool) -> int | None:
    """Larger batches in an epoch; None where that does not follow from how many there were."""
    batches = pipeline.cardinality
    if batches == tf.data.INFINITE_CARDINALITY:
        return batches
    below = next((n for n in reversed(pipeline.stages) if not _hands_on(n)), None)
    if batches < 0 or below is None or below.kind not in _BATCHING:
        return None
    return batches // times if whole else -(-batches // times)
