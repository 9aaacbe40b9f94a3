"""What a dataset object was created with, and its handle in the runtime.

Borrowed: fields of the dataset classes: each parameter of a constructor, under ``_`` and its name;
    the variant tensor, flat dtypes, the serialized graph; the message of ``tf.data.Options``.
Why: a dataset returns its element spec and its cardinality, but not what it was created with.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when it is read.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.compat.borrow import borrow, borrow_attribute

borrow("tensorflow.python.data.ops.dataset_ops", "DatasetV2._as_serialized_graph")
borrow("tensorflow.python.data.ops.dataset_ops", "DatasetV2._variant_tensor")
borrow("tensorflow.python.data.ops.dataset_ops", "DatasetV2._flat_types")

Dataset = Any  # tf.data.Dataset: TensorFlow ships no types
_REQUIRED: Final = object()


def parameter(dataset: Dataset, name: str, default: Any = _REQUIRED) -> Any:
    """What a dataset was created with.

    Args:
        dataset: Of any class that has such a parameter.
        name: Of the constructor's parameter: ``"batch_size"``, ``"map_func"``.
        default: For classes and objects without it; without a default they are an error.

    Raises:
        MissingPrivateApi: There is no such field.

    Example:
        >>> numbers = tf.data.Dataset.range(9).shuffle(4, seed=1, name="mixed")
        >>> parameter(numbers, "name"), parameter(numbers, "batch_size", None)
        ('mixed', None)
    """
    if default is _REQUIRED:
        return borrow_attribute(dataset, f"_{name}")
    return getattr(dataset, f"_{name}", default)


def int_parameter(dataset: Dataset, name: str) -> int:
    """The same as a Python number; datasets keep it as a tensor.

    Example:
        >>> int_parameter(tf.data.Dataset.range(9).batch(4), "batch_size")
        4
    """
    return int(np.asarray(parameter(dataset, name)))


def has_parameter(dataset: Dataset, name: str) -> bool:
    """Whether datasets of its class are created with such a parameter."""
    return hasattr(dataset, f"_{name}")


def variant_tensor(dataset: Dataset) -> Any:
    """The tensor by which ops refer to a dataset."""
    return dataset._variant_tensor


def flat_types(dataset: Dataset) -> list[Any]:
    """Dtypes of the tensors that an element consists of.

    Example:
        >>> flat_types(tf.data.Dataset.range(3).enumerate())
        [tf.int64, tf.int64]
    """
    return list(dataset._flat_types)


def serialized_graph(dataset: Dataset) -> Any:
    """The ``GraphDef`` of a whole pipeline, with the arrays in it; state of ops is left out.

    Raises:
        tensorflow.errors.OpError: It cannot be written; so do TypeError and ValueError say.
    """
    policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    text = dataset._as_serialized_graph(external_state_policy=policy).numpy()
    return tf.compat.v1.GraphDef.FromString(text)


def options_bytes(options: tf.data.Options) -> bytes:
    """Options as bytes that are equal for equal options, in each process."""
    message: Any = borrow_attribute(options, "_to_proto")()
    return bytes(message.SerializeToString(deterministic=True))
