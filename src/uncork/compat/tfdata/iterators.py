"""Iterators over datasets: the resource behind one, and a class that passes for TensorFlow's.

Borrowed: ``OwnedIterator``: the class, its fields, its methods for the next element and its state.
Why: the public ``tf.data.Iterator`` is abstract: a compiled function, and a checkpoint, take an
    iterator only with these fields and methods.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported; for a field of
    an iterator, when it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

from uncork.compat.borrow import borrow, borrow_attribute
from uncork.compat.tfdata.nested import get_flat_tensor_shapes, get_flat_tensor_types

_MODULE: Final = "tensorflow.python.data.ops.iterator_ops"
_OwnedIterator: Final[Any] = borrow(_MODULE, "OwnedIterator")
_RESOURCE: Final = "_iterator_resource"

borrow(_MODULE, "OwnedIterator._next_internal")
borrow("tensorflow.python.trackable.base", "Trackable._serialize_to_tensors")
borrow("tensorflow.python.trackable.base", "Trackable._restore_from_tensors")


def resource_of(iterator: Any) -> Any:
    """The tensor by which ops refer to an iterator.

    Raises:
        MissingPrivateApi: It has none.
    """
    return borrow_attribute(iterator, _RESOURCE)


class ConvertedIterator(_OwnedIterator):  # type: ignore[misc]
    """Passes for TensorFlow's iterator, with elements that are made of another iterator's.

    Args:
        source: TensorFlow's own.
        spec: Of the elements that are made.
        convert: Makes one of an element of the source.
        onward: Returns a TensorFlow iterator over the remaining elements. It is called once, when
            something asks for the resource, as a compiled function does.
        keep_alive: Lives as long as the iterator.
    """

    def __init__(
        self,
        source: Any,
        spec: Any,
        convert: Callable[[Any], Any],
        onward: Callable[[], Any],
        keep_alive: Any = None,
    ) -> None:
        self._source, self._convert, self._make_onward = source, convert, onward
        self._kept_alive = keep_alive
        self._dataset = borrow_attribute(source, "_dataset")
        self._element_spec = spec
        self._flat_output_types = get_flat_tensor_types(spec)
        self._flat_output_shapes = get_flat_tensor_shapes(spec)
        self._get_next_call_count = 0

    def _next_internal(self) -> Any:
        if not tf.executing_eagerly():
            return super()._next_internal()
        return self._convert(self._source._next_internal())

    def __getattr__(self, name: str) -> Any:
        """A function that is called with the iterator reads from a resource: it gets one."""
        if name != _RESOURCE or "_source" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with tf.init_scope():
            self._onward = self._make_onward()
            self._iterator_resource = resource_of(self._onward)
        return self._iterator_resource

    # It is where its source is: a checkpoint keeps that.
    def _serialize_to_tensors(self) -> Any:
        return self._source._serialize_to_tensors()

    def _restore_from_tensors(self, restored_tensors: Any) -> Any:
        return self._source._restore_from_tensors(restored_tensors)

    def _save(self) -> Any:
        return self._source._save()

    def _restore(self, state: Any) -> Any:
        return self._source._restore(state)
