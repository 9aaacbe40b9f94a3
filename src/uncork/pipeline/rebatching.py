"""Batches put together to larger ones, at the end of a pipeline."""

from __future__ import annotations

from typing import Final

import tensorflow as tf

from uncork.core.errors import EditRefused
from uncork.core.pipeline_edit import Rebatch
from uncork.pipeline.kinds import Dataset
from uncork.pipeline.nodes import prefetched
from uncork.pipeline.tree import Pipeline

# Above the stage that makes batches: what hands each of them on, so that only the last is smaller.
_HANDING_ON: Final = ("map", "prefetch", "cache", "options", "model", "assert_cardinality")
_BATCHING: Final = ("batch", "padded_batch")


def rebatched(pipeline: Pipeline, edit: Rebatch) -> Dataset:
    """The same samples in the same order, in batches of another size, prepared ahead.

    Raises:
        EditRefused: Batches that cannot be put together, or need not be.
    """
    reason = why_not_rebatched(pipeline)
    if reason:
        raise EditRefused(reason, "dense batches of one shape", "leave the batch as it is")
    whole = all(
        spec.shape[0] is not None for spec in tf.nest.flatten(pipeline.dataset.element_spec)
    )
    larger = pipeline.dataset.rebatch(edit.batch_size, drop_remainder=whole)
    length = _length(pipeline, edit.times, whole)
    if length is not None:  # rebatching does not tell, and Keras counts by it
        larger = larger.apply(tf.data.experimental.assert_cardinality(length))
    return prefetched(larger)


def why_not_rebatched(pipeline: Pipeline) -> str:
    """Part of a sentence; empty where batches can be put together."""
    specs = tf.nest.flatten(pipeline.dataset.element_spec, expand_composites=False)
    if not all(isinstance(spec, tf.TensorSpec) for spec in specs):
        return "its batches are ragged, sparse or no tensors"
    if not all(spec.shape.rank and spec.shape[1:].is_fully_defined() for spec in specs):
        return "its batches differ in shape"
    return ""


def _length(pipeline: Pipeline, times: int, whole: bool) -> int | None:
    """Larger batches in an epoch; None where that does not follow from how many there were."""
    batches = pipeline.cardinality
    if batches == tf.data.INFINITE_CARDINALITY:
        return batches
    below = next((n for n in reversed(pipeline.stages) if n.kind not in _HANDING_ON), None)
    if batches < 0 or below is None or below.kind not in _BATCHING:
        return None
    return batches // times if whole else -(-batches // times)
