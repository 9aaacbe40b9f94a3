"""Lookup tables that never change."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from uncork.core.holders import owners_of


def never_changes(handle: Any) -> bool:
    """A table behind this handle is filled when it is made, and cannot be filled again.

    The handle does not tell: static and mutable tables share one interface. The object that holds
    it does. A table of unknown origin, a restored one for example, is taken for one that changes.

    Args:
        handle: A tensor that a function captured.

    Example:
        >>> import tensorflow as tf
        >>> words = tf.lookup.KeyValueTensorInitializer(["cat", "dog"], [1, 2])
        >>> static = tf.lookup.StaticHashTable(words, default_value=0)
        >>> mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.int32, 0)
        >>> never_changes(static.resource_handle), never_changes(mutable.resource_handle)
        (True, False)
    """
    if handle.dtype != tf.resource:
        return False
    tables: list[Any] = [
        each for each in owners_of(handle) if issubclass(type(each), tf.lookup.StaticHashTable)
    ]
    return any(each._resource_handle is handle for each in tables)
