"""Lookup tables that never change."""

from __future__ import annotations

import gc
from typing import Any

import tensorflow as tf


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
    holders = gc.get_referrers(handle)
    # An object's attributes lie in the object itself, or in a dictionary that it holds.
    attributes = [holder for holder in holders if type(holder) is dict]
    if attributes:
        holders.extend(gc.get_referrers(*attributes))
    return any(
        issubclass(type(holder), tf.lookup.StaticHashTable) and holder._resource_handle is handle
        for holder in holders
    )
