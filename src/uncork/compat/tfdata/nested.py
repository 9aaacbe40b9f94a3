"""Nested structures as tf.data packs and flattens them.

Borrowed: ``data.util.nest`` and ``data.util.structure``; how a type spec becomes one of a batch.
Why: ``tf.nest`` takes lists apart, which tf.data takes for one component; and nothing public turns
    an element into the flat tensors that a dataset's function is called with, or batches any spec.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from uncork.compat.borrow import borrow, borrow_attribute

_NEST: Final = "tensorflow.python.data.util.nest"
_STRUCTURE: Final = "tensorflow.python.data.util.structure"

flatten: Final[Callable[[Any], list[Any]]] = borrow(_NEST, "flatten")
pack_sequence_as: Final[Callable[[Any, list[Any]], Any]] = borrow(_NEST, "pack_sequence_as")

borrow("tensorflow.python.framework.type_spec", "BatchableTypeSpec._batch")

# Dtypes, and shapes, of the flat tensors of elements of a type spec.
get_flat_tensor_types: Final[Callable[[Any], list[Any]]] = borrow(
    _STRUCTURE, "get_flat_tensor_types"
)
get_flat_tensor_shapes: Final[Callable[[Any], list[Any]]] = borrow(
    _STRUCTURE, "get_flat_tensor_shapes"
)
# The flat tensors of an element; its first argument is the type spec.
to_tensor_list: Final[Callable[[Any, Any], list[Any]]] = borrow(_STRUCTURE, "to_tensor_list")


def batch_spec(spec: Any, size: int | None) -> Any:
    """The type spec of a batch of elements.

    Args:
        spec: Of one element; no nested structure.
        size: Of the batch; None where it varies.

    Example:
        >>> import tensorflow as tf
        >>> batch_spec(tf.TensorSpec([3], tf.int32), None)
        TensorSpec(shape=(None, 3), dtype=tf.int32, name=None)
    """
    return borrow_attribute(spec, "_batch")(size)
