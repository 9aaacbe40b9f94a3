"""Tables of embeddings of which a step reads and updates the rows that its batch looks up, alone.

The gradient of a table comes as rows, and some updates leave a row without one as it is: Adagrad
would add the square of nothing to its sum, and subtract nothing. Yet Keras reads the whole sum,
adds its epsilon, takes the root, and looks for zeros in it, before it picks the rows. And as soon
as rows of a variable were written, TensorFlow copies it whenever it is read whole, which is how
Keras's ``Embedding`` reads it.

Here rows are picked first. What is done with them is Keras's own arithmetic in Keras's order, rows
that a batch looks up twice included: Keras adds the squares of their gradients, one by one. State
stays where Keras keeps it, so a training may go on with either at any step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import keras
import tensorflow as tf

from uncork.compat.keras3.backend import tf_variable
from uncork.compat.keras3.layers import flatten_layers, table_of
from uncork.compat.keras3.optimizer import squared_sums, weight_number
from uncork.core.edits.step import RowUpdates
from uncork.training.tracing.model_attribute import override_attribute

_UPDATE: Final = "update_step"
# Options of an optimizer that have Keras pass over whole tables, or make their gradients as large.
_OF_ALL_ROWS: Final = {
    "weight_decay": "decays every row at every step",
    "use_ema": "averages every row at every step",
    "gradient_accumulation_steps": "accumulates gradients in variables as large as the tables",
    "global_clipnorm": "creates gradients as large as the tables for clipping",
    "loss_scale_factor": "creates gradients as large as the tables for scaling",
}


def count_row_tables(model: Any) -> int:
    """Of how many tables the rows that a batch looks up can be read and updated alone.

    Args:
        model: Built and compiled.

    Returns:
        0 where the optimizer changes other rows, too, or is not known not to.

    Example:
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Embedding(50, 4)])
        >>> model.compile("adagrad", "mse")
        >>> count_row_tables(model)
        1
        >>> model.compile("adam", "mse")
        >>> count_row_tables(model)
        0
    """
    return 0 if row_update_refusal(model) else len(_tables(model))


def row_update_refusal(model: Any) -> str | None:
    """Why a step cannot update only the rows that a batch looks up; None where it can.

    Args:
        model: Built and compiled.
    """
    reason = _why_not_by(model.optimizer)
    if reason is None and not model.built:
        return "the model has no weights yet when fit is called"
    if reason is None and not _tables(model):
        return "the model has no trainable Embedding table without a regularizer or constraint"
    return reason


@contextmanager
def apply_row_updates(model: Any, edits: tuple[Any, ...]) -> Iterator[None]:
    """What is traced inside reads and updates rows of tables alone, where an edit asks for it.

    Args:
        model: Built and compiled; :func:`row_update_refusal` has nothing against it.
        edits: Of the step.
    """
    if not any(isinstance(edit, RowUpdates) for edit in edits):
        yield
        return
    optimizer = model.optimizer
    # SGD writes rows alone already.
    updates = isinstance(optimizer, keras.optimizers.Adagrad)
    with _updated(optimizer) if updates else nullcontext(), _read(_tables(model)):
        yield


def _why_not_by(optimizer: Any) -> str | None:
    kind, name = type(optimizer), type(optimizer).__name__
    if kind not in (keras.optimizers.Adagrad, keras.optimizers.SGD):
        return f"Uncork does not know whether {name} leaves rows without a gradient unchanged"
    if getattr(optimizer, "momentum", 0):
        return f"the momentum of {name} also changes rows without a gradient"
    if not getattr(optimizer, "epsilon", 1.0) > 0:
        return f"{name} without epsilon divides by sums that may be zero"
    used = (f"{option} {d}" for option, d in _OF_ALL_ROWS.items() if getattr(optimizer, option))
    return next(used, None)


@contextmanager
def _updated(optimizer: Any) -> Iterator[None]:
    as_ever = optimizer.update_step

    def update_step(gradient: Any, weight: Any, rate: Any) -> None:
        if isinstance(gradient, tf.IndexedSlices) and weight.dtype == tf.float32:
            _adagrad(optimizer, gradient, weight, rate)
        else:
            as_ever(gradient, weight, rate)

    with override_attribute(optimizer, _UPDATE, update_step):
        yield


def _adagrad(optimizer: Any, gradient: Any, weight: Any, rate: Any) -> None:
    """Keras's update, but the sums of these rows alone are read."""
    rows, values = gradient.indices, tf.cast(gradient.values, weight.dtype)
    sums = squared_sums(optimizer)[weight_number(optimizer, weight)]
    optimizer.assign_add(sums, tf.IndexedSlices(tf.square(values), rows, gradient.dense_shape))
    root = tf.sqrt(tf.gather(sums.value, rows) + optimizer.epsilon)
    # It is never zero; but from a plain quotient by a root TensorFlow makes a product with its
    # reciprocal, which rounds otherwise. Keras's rows are picked between the two.
    change = tf.math.divide_no_nan(tf.cast(rate, weight.dtype) * values, root)
    optimizer.assign_sub(weight, tf.IndexedSlices(change, rows, gradient.dense_shape))


@contextmanager
def _read(tables: list[Any]) -> Iterator[None]:
    """Of the class, and for these layers alone: a copy of a layer must not take ours along."""
    as_ever, ours = keras.layers.Embedding.call, {id(layer) for layer in tables}

    def call(self: Any, inputs: Any) -> Any:
        if id(self) not in ours or not isinstance(inputs, tf.Tensor):
            return as_ever(self, inputs)
        return _looked_up(self, inputs)

    keras.layers.Embedding.call = call
    try:
        yield
    finally:
        keras.layers.Embedding.call = as_ever


def _looked_up(layer: Any, inputs: Any) -> Any:
    """As the layer does it, but of the variable, not of its value."""
    table = tf_variable(table_of(layer))
    rows = inputs if inputs.dtype in (tf.int32, tf.int64) else tf.cast(inputs, tf.int32)
    from_end = rows + tf.cast(table.shape[0], rows.dtype)
    found = tf.gather(table, tf.where(rows < 0, from_end, rows))
    return tf.cast(found, layer.compute_dtype)


def _tables(model: Any) -> list[Any]:
    """Layers whose table is changed by its gradient and nothing else."""
    return [layer for layer in flatten_layers(model) if _is_plain(layer)]


def _is_plain(layer: Any) -> bool:
    if type(layer) is not keras.layers.Embedding or not layer.built:
        return False
    if layer.lora_enabled or getattr(layer, "quantization_mode", None):
        return False
    table = table_of(layer)
    bound = layer.embeddings_regularizer or table.constraint
    return bool(table.trainable) and table.dtype == "float32" and not bound
