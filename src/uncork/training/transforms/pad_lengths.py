"""Pads batches to few different lengths, so that XLA compiles few shapes.

Rows of a batch are filled up to the longest of them already, and a model that masks what is filled
up does not see how much there is of it. What fills them is what the script's own ``padded_batch``
fills them with, or zero where none is seen; no batch gets longer than the longest that was seen,
as a model may know of no position beyond.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.compat.keras3.model_state import strategy_of
from uncork.compat.tfdata.dataset_fields import parameter
from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import LayersInInput, MapOnDevice, PadLengths, StepEdit
from uncork.core.evidence.batches import VaryingAxis
from uncork.pipeline.ir.tree import Pipeline
from uncork.training.input.feed import Feed

_LEAVE: Final = "keep the batches unchanged"
# Above a batch: what hands it on as it is.
_HANDING_ON: Final = {
    "assert_cardinality", "cache", "filter", "model", "options", "padded_batch", "prefetch",
    "repeat", "shard", "shuffle", "skip", "take",
}  # fmt: skip


class PaddedFeed:
    """What an edit does to the data of a model's training.

    Args:
        model: The user's.
        edit: Says to which lengths.

    Raises:
        EditRefused: XLA compiles no step of this model, or not one step for all.
    """

    def __init__(self, model: Any, edit: PadLengths) -> None:
        if not model.jit_compile or strategy_of(model) is not None:
            raise EditRefused(
                "the model runs without XLA, or under a tf.distribute strategy",
                "jit_compile=True on one device",
                _LEAVE,
            )
        self._model, self._edit = model, edit

    def training_feed(self, feed: Feed) -> Feed:
        """The same data with padded batches.

        Batches that were recorded for a replay are as the step is to be given them.

        Raises:
            EditRefused: It is no tf.data pipeline of such batches.
        """
        if feed.resident_batch_count:
            assert feed.dataset is not None
            return feed.with_resident_batches(
                [self._filled(batch) for batch in feed.dataset.take(feed.resident_batch_count)]
            )
        if feed.is_recorded:
            return feed
        if feed.dataset is None:
            raise EditRefused("the data is not a tf.data pipeline", "one", _LEAVE)
        self._check(feed.dataset.element_spec)
        return feed.with_dataset(feed.dataset.map(_as_one(self._filled, feed.dataset)))

    def validation_feed(self, feed: Feed) -> Feed:
        """The validation data with padded batches, or unchanged if the edit excludes validation."""
        if not self._edit.has_validation:
            return feed
        try:
            return self.training_feed(feed)
        except EditRefused as why:
            received = f"in the validation data: {why.received}"
            raise EditRefused(received, why.expected, why.remedy) from None

    def batch_pairs(self, feed: Feed) -> Any:
        """A dataset of pairs: each batch padded and unpadded."""
        dataset = feed.batches_dataset(self._model)
        filled, given = (_as_one(way, dataset) for way in (self._filled, lambda batch: batch))
        return dataset.map(lambda *batch: (filled(*batch), given(*batch)))

    def _filled(self, batch: Any) -> Any:
        tensors = tf.nest.flatten(batch)
        for axis in self._edit.axes:
            tensors[axis.tensor_index] = _filled(
                tensors[axis.tensor_index], axis, self._edit.multiple
            )
        return tf.nest.pack_sequence_as(batch, tensors)

    def _check(self, spec: Any) -> None:
        parts = tf.nest.flatten(spec)
        for each in self._edit.axes:
            part = parts[each.tensor_index] if each.tensor_index < len(parts) else None
            if not _is_open(part, each.axis):
                raise EditRefused(
                    f"axis {each.axis} of tensor {each.tensor_index} of a batch is {part}",
                    "an axis of variable length",
                    "run 'uncork tune' again to make a plan for this data",
                )


def find_padding_values(pipeline: Pipeline | None) -> tuple[float, ...]:
    """The padding value of each tensor of a batch; none where Uncork must not pad.

    Args:
        pipeline: Of the training; None where it is fed by something else.

    Example:
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> data = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1, 2], [3]]))
        >>> rows = data.map(lambda row: (row, row))
        >>> find_padding_values(read_pipeline(rows.padded_batch(2, padding_values=(0, -1))))
        (0.0, -1.0)
    """
    if pipeline is None:
        return ()
    specs = tf.nest.flatten(pipeline.dataset.element_spec)
    if not all(isinstance(spec, tf.TensorSpec) and spec.shape.rank for spec in specs):
        return ()
    zeros = (0.0,) * len(specs)
    kinds = [node.kind for node in pipeline.stages]
    if "padded_batch" not in kinds:
        return zeros
    last = len(kinds) - 1 - kinds[::-1].index("padded_batch")
    padded = pipeline.stages[last].dataset
    values = [each.numpy() for each in tf.nest.flatten(parameter(padded, "padding_values"))]
    if not any(values):
        return zeros
    # What a map above makes of the batch may have another order.
    as_it_is = len(values) == len(specs) and set(kinds[last:]) <= _HANDING_ON
    known = [number for number in map(_number, values) if number is not None]
    return tuple(known) if as_it_is and len(known) == len(values) else ()


def has_same_padding(first: Pipeline | None, second: Pipeline | None) -> bool:
    """Whether two pipelines pad batches of the same structure with the same values.

    Example:
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> rows = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1, 2], [3]]))
        >>> first, second, third = (
        ...     read_pipeline(rows.map(lambda row: row).padded_batch(size, padding_values=fill))
        ...     for size, fill in ((2, 0), (1, 0), (2, -1))
        ... )
        >>> has_same_padding(first, second), has_same_padding(first, third)
        (True, False)
    """
    if first is None or second is None or find_padding_values(first) != find_padding_values(second):
        return False
    specs = first.dataset.element_spec, second.dataset.element_spec
    with suppress(TypeError, ValueError):  # they are put together otherwise
        tf.nest.assert_same_structure(*specs)
        parts = zip(*map(tf.nest.flatten, specs), strict=True)
        return all(type(a) is type(b) and _unmeasured(a) == _unmeasured(b) for a, b in parts)
    return False


def _unmeasured(spec: Any) -> Any:
    """A part of a batch, of any length."""
    return (spec.dtype, spec.shape.rank) if isinstance(spec, tf.TensorSpec) else spec


def _number(value: Any) -> float | None:
    """Of a dtype's own number the same as Python's, if there is such a one that JSON knows."""
    if isinstance(value, bytes):
        return None if value else 0.0
    number = float(value)
    with suppress(OverflowError):
        if math.isfinite(number) and np.asarray(number, value.dtype) == value:
            return number
    return None


def create_padded_feed(model: Any, edits: tuple[StepEdit, ...]) -> PaddedFeed | None:
    """Pads a model's batches; None where no edit requests it.

    Raises:
        EditRefused: It cannot be done for this model, or beside another edit.
    """
    edit = next((edit for edit in edits if isinstance(edit, PadLengths)), None)
    if edit is None:
        return None
    if any(isinstance(e, LayersInInput | MapOnDevice) for e in edits):
        raise EditRefused(
            "a part of the step runs in the input pipeline, or a part of the pipeline in the step",
            "batches that reach the training step unchanged",
            _LEAVE,
        )
    return PaddedFeed(model, edit)


def _is_open(spec: Any, axis: int) -> bool:
    shape = spec.shape if isinstance(spec, tf.TensorSpec) else tf.TensorShape(None)
    return bool(shape.rank) and axis < shape.rank and shape[axis] is None


def _filled(tensor: Any, axis: VaryingAxis, multiple: int) -> Any:
    length = tf.shape(tensor)[axis.axis]
    missing = tf.maximum(0, tf.minimum(length + -length % multiple, axis.max_length) - length)
    widths = [[0, missing if each == axis.axis else 0] for each in range(tensor.shape.rank)]
    is_text = tensor.dtype == tf.string
    value = (
        "" if is_text else tf.constant(np.asarray(axis.padding_value, tensor.dtype.as_numpy_dtype))
    )
    filled = tf.pad(tensor, widths, constant_values=value)
    filled.set_shape([None if n == axis.axis else d for n, d in enumerate(tensor.shape)])
    return filled


def _as_one(function: Any, dataset: Any) -> Any:
    """Of a batch: a dataset hands the parts of a tuple over one by one."""
    in_parts = isinstance(dataset.element_spec, tuple)
    return lambda *batch: function(batch if in_parts else batch[0])
