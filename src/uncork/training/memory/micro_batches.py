"""A training step that runs its batch in micro-batches and updates the weights once.

What a step holds for its backward pass grows with the batch. In parts it holds that of one part,
and beside it the sums of the gradients, as large as the weights. Losses are weighted so that their
sum is the loss of the whole batch; Keras's loss tracker is told that sum, once for each batch, and
the optimizer its gradients. So a schedule goes on by one step for each batch, as it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from uncork.compat.keras3.backend import get_keras_mask
from uncork.compat.keras3.layers import takes_training
from uncork.compat.keras3.model_state import compile_loss, compute_loss, loss_tracker
from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import LayersInInput, MicroBatches, StepEdit
from uncork.training.memory.batch_independence import loss_reductions, micro_batch_refusal
from uncork.training.tracing.model_attribute import override_attribute

_WHOLE = "use a smaller batch without micro-batches"


class _Part(NamedTuple):
    """Of a batch: the how manieth, its first row, how many it has."""

    number: Any
    first: Any
    rows: Any


class MicroBatchedStep:
    """What an edit does to a model's training step.

    Args:
        model: The user's, built and compiled.
        edit: Says in how many parts.

    Raises:
        EditRefused: In parts it would be another training, or nobody knows.
    """

    def __init__(self, model: Any, edit: MicroBatches) -> None:
        _check(micro_batch_refusal(model))
        self._model, self._parts = model, edit.parts
        self._without_gradient: set[int] = set()
        self._in_rows: frozenset[int] = frozenset()

    @contextmanager
    def patch_model(self) -> Iterator[None]:
        """Where Keras makes what it trains the model with, inside the block, it goes in parts."""
        model = self._model
        make = model.make_train_function

        def make_train_function(force: bool = False) -> Any:
            if model.train_function is None or force:
                with override_attribute(model, "train_step", self._train_step):
                    make(force=force)
            return model.train_function

        with override_attribute(model, "make_train_function", make_train_function):
            yield

    def _train_step(self, data: Any) -> Any:
        """Keras's own, but for the parts."""
        model = self._model
        batch = keras.utils.unpack_x_y_sample_weight(data)
        rows = _rows(batch)
        try:
            loss, sums = self._sums(batch, rows)
        except _InRowsError as found:  # known once it was traced
            self._in_rows = found.places
            loss, sums = self._sums(batch, rows)
        loss_tracker(model).update_state(loss, sample_weight=rows)
        gradients = [
            None if place in self._without_gradient else each for place, each in enumerate(sums)
        ]
        model.optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        return model.get_metrics_result()

    def _sums(self, batch: Any, rows: Any) -> tuple[Any, list[Any]]:
        """Of the losses and the gradients of all parts."""
        compiled = bool(self._model.jit_compile)
        size = -(-rows // self._parts) if isinstance(rows, int) else _up(rows, self._parts)
        # XLA wants parts of one size in its loop; what is left is a part of its own there.
        even = compiled or (isinstance(rows, int) and rows % size == 0)
        count = rows // size if even else _up(rows, size)

        def go_on(number: Any, loss: Any, sums: Any) -> Any:
            start = number * size
            length = size if even else tf.minimum(size, rows - start)
            part = _Part(number, start, length)
            return (number + 1, *self._added(loss, sums, batch, part, rows))

        weights = self._model.trainable_weights
        if compiled and self._in_rows:
            _check(
                "the model uses XLA, and the gradient of an embedding table is sparse "
                "(tf.IndexedSlices)"
            )
        _, loss, sums = tf.while_loop(
            lambda number, _loss, _sums: number < count,
            go_on,
            (
                0,
                tf.zeros((), keras.backend.floatx()),
                [
                    _no_rows(w, count) if place in self._in_rows else tf.zeros(w.shape, w.dtype)
                    for place, w in enumerate(weights)
                ],
            ),
            parallel_iterations=1,  # the next one's forward pass would be held beside this one's
        )
        left = rows - count * size
        sums = [
            _rows_of(each, w) if place in self._in_rows else each
            for place, (each, w) in enumerate(zip(sums, weights, strict=True))
        ]
        if not even or (isinstance(left, int) and left == 0):
            return loss, sums

        def last() -> tuple[Any, list[Any]]:
            return self._added(loss, sums, batch, _Part(count, count * size, left), rows)

        if isinstance(left, int):
            return last()
        found: tuple[Any, list[Any]] = tf.cond(left > 0, last, lambda: (loss, sums))
        return found

    def _added(
        self, loss: Any, sums: list[Any], batch: Any, part: _Part, rows: Any
    ) -> tuple[Any, list[Any]]:
        """The sums with those of one part."""
        x, y, weight = keras.tree.map_structure(
            lambda each: _slice(each, part.first, part.rows), batch
        )
        model = self._model
        dtype = loss.dtype
        share = tf.cast(part.rows, dtype) / tf.cast(rows, dtype)
        with self._in_shares(share, _static(batch)), tf.GradientTape() as tape:
            called = {"training": True} if takes_training(model) else {}
            predicted = model(x, **called)
            own = compute_loss(
                model, x=x, y=y, y_pred=predicted, sample_weight=weight, training=True
            )
            own = tf.cast(own, dtype) * self._of_batch(predicted, own, share)
            scaled = model.optimizer.scale_loss(own)
        gradients = tape.gradient(scaled, model.trainable_weights)
        model.compute_metrics(x, y, predicted, sample_weight=weight)
        _check(micro_batch_refusal(model))  # losses and metrics are built by now
        self._without_gradient = {place for place, g in enumerate(gradients) if g is None}
        in_rows = {n for n, g in enumerate(gradients) if isinstance(g, tf.IndexedSlices)}
        if in_rows != self._in_rows:
            raise _InRowsError(frozenset(in_rows))
        added = [
            total if each is None else _plus(total, each, part.number)
            for total, each in zip(sums, gradients, strict=True)
        ]
        return _plus(loss, own, part.number), added

    def _of_batch(self, predicted: Any, loss: Any, share: Any) -> Any:
        """What the loss of a part counts in that of the batch, its losses built."""
        masked = any(get_keras_mask(each) is not None for each in keras.tree.flatten(predicted))
        summed = loss_reductions(self._model) == {"sum"}
        if masked:
            _check(
                "the outputs of the model have a mask, and the loss is averaged over the "
                "unmasked part of the batch"
            )
        if summed and self._model.losses:
            _check(
                "the loss is a sum over the batch, and the model adds another loss once for "
                "the batch"
            )
        if loss.shape.rank != 0:
            _check(f"the loss has shape {loss.shape} and is not a scalar")
        return 1.0 if summed else share

    @contextmanager
    def _in_shares(self, share: Any, rows: int | None) -> Iterator[None]:
        """Keras's trackers of the losses of several outputs are told as much as of the batch."""
        # Without a loss of its own a model has none to compile: layers add it.
        trackers = getattr(compile_loss(self._model), "metrics", ())

        def told(update: Any) -> Any:
            return lambda loss, sample_weight=None: update(
                loss, sample_weight=share * (1 if sample_weight is None else rows or 1)
            )

        with ExitStack() as stack:
            for each in trackers:
                update = told(each.update_state)
                stack.enter_context(override_attribute(each, "update_state", update))
            yield


def create_micro_batched_step(model: Any, edits: tuple[StepEdit, ...]) -> MicroBatchedStep | None:
    """The micro-batched step of a model; None where no edit requests it.

    Raises:
        EditRefused: It cannot be done with this model's step.
    """
    edit = next((edit for edit in reversed(edits) if isinstance(edit, MicroBatches)), None)
    if edit is not None and any(isinstance(other, LayersInInput) for other in edits):
        raise EditRefused(
            "the input pipeline runs the first layers of the model on the whole batch",
            "unchanged batches of the data",
            "keep the layers in the model",
        )
    return MicroBatchedStep(model, edit) if edit else None


class _InRowsError(Exception):
    """Gradients of other weights come in rows than was thought: of those in these places."""

    def __init__(self, places: frozenset[int]) -> None:
        super().__init__(places)
        self.places = places


def _no_rows(table: Any, parts: Any) -> tuple[Any, Any]:
    """Where rows of a table's gradient are kept, part by part, and their numbers.

    They are not added up: where a row is looked up twice, Keras's optimizers may square its
    gradients one by one.
    """
    given = {"size": parts, "infer_shape": False}
    values = tf.TensorArray(table.dtype, element_shape=[None, *table.shape[1:]], **given)
    return values, tf.TensorArray(tf.int32, element_shape=[None], **given)


def _rows_of(kept: tuple[Any, Any], table: Any) -> Any:
    values, numbers = kept
    shape = tf.constant(list(table.shape), tf.int32)
    return tf.IndexedSlices(values.concat(), numbers.concat(), shape)


def _plus(total: Any, each: Any, number: Any) -> Any:
    """Of one shape, which the loop insists on and the graph of a gradient need not know."""
    if isinstance(each, tf.IndexedSlices):
        values, rows = total
        return values.write(number, each.values), rows.write(
            number, tf.cast(each.indices, tf.int32)
        )
    found = total + tf.cast(tf.convert_to_tensor(each), total.dtype)
    found.set_shape(total.shape)
    return found


def _up(rows: Any, size: Any) -> Any:
    """Divided, and rounded up; at least one."""
    return tf.maximum(1, -(-rows // size))


def _leaves(batch: Any) -> list[Any]:
    return [each for each in keras.tree.flatten(batch) if each is not None]


def _static(batch: Any) -> int | None:
    rows: int | None = _leaves(batch)[0].shape[0]
    return rows


def _rows(batch: Any) -> Any:
    """Of a batch, where they are all in one place; a number where the graph knows it."""
    for each in _leaves(batch):
        if not isinstance(each, tf.Tensor) or each.shape.rank in (0, None):
            raise EditRefused(
                f"a part of the batch is not a dense tensor with rows: {each}"[:200],
                "dense tensors with one row for each example",
                _WHOLE,
            )
    lengths = {each.shape[0] for each in _leaves(batch)}
    if len(lengths - {None}) > 1:
        raise EditRefused(
            f"the tensors of a batch have different numbers of rows: {sorted(lengths - {None})}",
            "one row for each example in every tensor",
            _WHOLE,
        )
    known = next(iter(lengths - {None}), None)
    return tf.shape(_leaves(batch)[0])[0] if known is None else known


def _slice(each: Any, start: Any, length: Any) -> Any:
    if each is None:
        return None
    begin = tf.concat([[start], tf.zeros(each.shape.rank - 1, tf.int32)], 0)
    part = tf.slice(each, begin, tf.concat([[length], tf.shape(each)[1:]], 0))
    part.set_shape([length if isinstance(length, int) else None, *each.shape[1:]])
    return part


def _check(reason: str | None) -> None:
    if reason is not None:
        raise EditRefused(reason, "a step that treats each example independently", _WHOLE)
