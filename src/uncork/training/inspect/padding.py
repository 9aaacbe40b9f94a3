"""How much of a batch of sequences is padding, and the same batch with most of it cut away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf

# Shorter rows than this are no sequences that anybody fills up.
_LEAST: Final = 8
# Of a row, what is left at most where much of it is padding.
_MUCH: Final = 0.6
# Lengths that a batch is taken to be sorted into, as by the boundaries of a bucketing.
_GROUPS: Final = 8


@dataclass(frozen=True)
class Padding:
    """Rows of numbers that were filled up with zeros to one length.

    Attributes:
        padded_length: That length.
        mean_length: Of the rows without their zeros.
        grouped_length: Mean length where rows of like length are put together, and filled up to the
            longest among them.
        is_leading: The zeros stand before the numbers, as ``keras.utils.pad_sequences`` puts them.
    """

    padded_length: int
    mean_length: float
    grouped_length: float
    is_leading: bool

    @property
    def is_significant(self) -> bool:
        """More than what batches of like length still have."""
        return self.grouped_length <= _MUCH * self.padded_length

    def trim(self, batch: Any) -> Any:
        """The batch as it would be on average if rows of like length were put together.

        Every dense part whose second dimension is the rows' length is cut.
        """
        length = max(1, round(self.grouped_length))
        kept = slice(self.padded_length - length, None) if self.is_leading else slice(0, length)

        def shorter(leaf: Any) -> Any:
            dense = isinstance(leaf, (tf.Tensor, np.ndarray)) and len(leaf.shape) > 1
            return leaf[:, kept] if dense and leaf.shape[1] == self.padded_length else leaf

        return tf.nest.map_structure(shorter, batch)


def measure_padding(inputs: Any) -> Padding | None:
    """The rows of whole numbers with the most padding; None where nothing looks like any.

    Zero is taken for padding where rows end in it, or where they begin with it.

    Args:
        inputs: What a model is given, one batch; any nest of tensors and arrays.

    Example:
        >>> measure_padding(
        ...     np.array([[5, 2, 9, 4, 0, 0, 0, 0], [7, 1, 0, 0, 0, 0, 0, 0]])
        ... ).mean_length
        3.0
    """
    found = [_padding(leaf) for leaf in tf.nest.flatten(inputs)]
    padded = [padding for padding in found if padding is not None]
    return min(
        padded, key=lambda padding: padding.mean_length / padding.padded_length, default=None
    )


def _padding(leaf: Any) -> Padding | None:
    if not isinstance(leaf, (tf.Tensor, np.ndarray)):
        return None
    dtype = tf.as_dtype(leaf.dtype)
    if len(leaf.shape) != 2 or not dtype.is_integer or leaf.shape[1] < _LEAST or not len(leaf):
        return None
    used = np.asarray(leaf) != 0
    longest = used.shape[1]
    any_used = used.any(1)
    behind = np.where(any_used, longest - used[:, ::-1].argmax(1), 0)
    before = np.where(any_used, longest - used.argmax(1), 0)
    stands_before = bool(before.mean() < behind.mean())
    lengths = np.sort(before if stands_before else behind)
    groups = np.array_split(lengths, min(_GROUPS, len(lengths)))
    grouped = sum(len(each) * each.max() for each in groups) / len(lengths)
    return Padding(longest, float(lengths.mean()), float(grouped), is_leading=stands_before)
