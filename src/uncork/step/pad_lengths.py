"""Batches filled up to few lengths before the training step gets them, so that XLA compiles few.

Rows of a batch are filled up to the longest of them already, and a model that masks what is filled
up does not see how much there is of it. What fills them is what the script's own ``padded_batch``
fills them with.
"""

from __future__ import annotations

from typing import Any, Final

import tensorflow as tf

from uncork.core.batch_facts import OpenAxis
from uncork.core.errors import EditRefused
from uncork.core.step_edit import LayersInInput, MapOnDevice, PadLengths, StepEdit
from uncork.pipeline import Pipeline
from uncork.step.feed import Feed

_LEAVE: Final = "leave the batches as they are"


class PaddedLengths:
    """What an edit does to the data of a model's training.

    Args:
        model: The user's.
        edit: Says to which lengths.

    Raises:
        EditRefused: XLA compiles no step of this model, or not one step for all.
    """

    def __init__(self, model: Any, edit: PadLengths) -> None:
        if not model.jit_compile or model._distribute_strategy is not None:
            raise EditRefused(
                "the model runs without XLA, or under a tf.distribute strategy",
                "jit_compile=True on one device",
                _LEAVE,
            )
        self._model, self._edit = model, edit

    def fed(self, feed: Feed) -> Feed:
        """The same data, each batch filled up.

        Batches that were recorded for a replay are as the step is to be given them.

        Raises:
            EditRefused: It is no tf.data pipeline of such batches.
        """
        if feed.held:
            assert feed.dataset is not None
            return feed.resident([self._filled(batch) for batch in feed.dataset.take(feed.held)])
        if feed.recorded:
            return feed
        if feed.dataset is None:
            raise EditRefused("the data is no tf.data pipeline", "one", _LEAVE)
        self._check(feed.dataset.element_spec)
        return feed.with_dataset(feed.dataset.map(_as_one(self._filled)))

    def in_two(self, feed: Feed) -> Any:
        """A dataset of pairs: each batch filled up, and as it is."""
        filled = _as_one(self._filled)
        return feed.batches_dataset(self._model).map(lambda *batch: (filled(*batch), batch))

    def _filled(self, batch: Any) -> Any:
        tensors = tf.nest.flatten(batch)
        for axis in self._edit.axes:
            tensors[axis.tensor] = _filled(tensors[axis.tensor], axis, self._edit.multiple)
        return tf.nest.pack_sequence_as(batch, tensors)

    def _check(self, spec: Any) -> None:
        parts = tf.nest.flatten(spec)
        for each in self._edit.axes:
            part = parts[each.tensor] if each.tensor < len(parts) else None
            if not _is_open(part, each.axis):
                raise EditRefused(
                    f"axis {each.axis} of tensor {each.tensor} of a batch, which is {part}",
                    "an axis of no fixed length",
                    "run 'uncork tune' again to make a plan for this data",
                )


def fills_of(pipeline: Pipeline | None) -> tuple[float, ...]:
    """What each tensor of a batch is filled up with; none where that is not for us to do.

    Args:
        pipeline: Of the training; None where it is fed by something else.

    Example:
        >>> data = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1, 2], [3]]))
        >>> rows = data.map(lambda row: (row, row))
        >>> fills_of(read(rows.padded_batch(2, padding_values=(0, -1))))
        (0.0, -1.0)
    """
    if pipeline is None:
        return ()
    specs = tf.nest.flatten(pipeline.dataset.element_spec)
    if not all(isinstance(spec, tf.TensorSpec) and spec.shape.rank for spec in specs):
        return ()
    padded = [node for node in pipeline.stages if node.kind == "padded_batch"]
    if not padded:
        return (0.0,) * len(specs)
    values = [each.numpy() for each in tf.nest.flatten(padded[-1].dataset._padding_values)]
    if any(value for value in values if isinstance(value, bytes)):
        return ()
    numbers = tuple(0.0 if isinstance(value, bytes) else float(value) for value in values)
    if len(numbers) != len(specs):  # a map above makes other tensors of them
        return (0.0,) * len(specs) if not any(numbers) else ()
    return numbers


def pad_lengths_of(model: Any, edits: tuple[StepEdit, ...]) -> PaddedLengths | None:
    """What fills a model's batches up; None where no edit asks for it.

    Raises:
        EditRefused: It cannot be done for this model, or beside another edit.
    """
    edit = next((edit for edit in edits if isinstance(edit, PadLengths)), None)
    if edit is not None and any(isinstance(e, LayersInInput | MapOnDevice) for e in edits):
        raise EditRefused(
            "parts of the input pipeline and of the step have changed places",
            "batches that reach the training step as they are",
            _LEAVE,
        )
    return PaddedLengths(model, edit) if edit else None


def _is_open(spec: Any, axis: int) -> bool:
    shape = spec.shape if isinstance(spec, tf.TensorSpec) else tf.TensorShape(None)
    return bool(shape.rank) and axis < shape.rank and shape[axis] is None


def _filled(tensor: Any, axis: OpenAxis, multiple: int) -> Any:
    missing = -tf.shape(tensor)[axis.axis] % multiple
    widths = [[0, missing if each == axis.axis else 0] for each in range(tensor.shape.rank)]
    value = "" if tensor.dtype == tf.string else tf.cast(axis.fill, tensor.dtype)
    filled = tf.pad(tensor, widths, constant_values=value)
    filled.set_shape([None if n == axis.axis else d for n, d in enumerate(tensor.shape)])
    return filled


def _as_one(function: Any) -> Any:
    """Of a batch: a dataset hands the parts of a tuple over one by one."""
    return lambda *batch: function(batch if len(batch) > 1 else batch[0])
