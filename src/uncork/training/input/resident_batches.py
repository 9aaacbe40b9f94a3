"""Batches held in memory: a step runs on them with nothing else to pay."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import tensorflow as tf

from uncork.training.input.feed import count_batch_samples

# Of batches that differ in shape, as many as show how long a step takes on the whole: some tens,
# unless reading them takes longer than a block of the measurement, or they are large.
_MOST: Final = 32
_MOST_COMPILED: Final = 8
_MOST_S: Final = 2.0
_MOST_BYTES: Final = 64 << 20
_FEW: Final = 2


def collect_resident_batches(batches: Any, *, is_compiled: bool = False) -> tuple[Any, ...]:
    """One full batch; where shapes differ from batch to batch, the first ones.

    What a step costs depends on the length of its sequences: on one batch over and over it would be
    the cost of that length.

    Args:
        batches: A dataset of them.
        is_compiled: Each shape has to be compiled, by XLA: fewer are then enough.

    Returns:
        None at all of an empty dataset.

    Example:
        >>> lengths = tf.data.Dataset.from_tensor_slices([3, 5, 4])
        >>> [
        ...     batch.shape[1]
        ...     for batch in collect_resident_batches(
        ...         lengths.map(lambda length: tf.zeros((2, length)))
        ...     )
        ... ]
        [3, 5, 4]
        >>> len(collect_resident_batches(tf.data.Dataset.range(100).batch(10)))
        1
    """
    found = list(_first(batches, _MOST_COMPILED if is_compiled else _MOST))
    if len({_lengths(batch) for batch in found}) > 1:
        return tuple(found)
    # Data that shuffles whole batches may begin with the short one.
    return (max(found, key=lambda batch: count_batch_samples(batch) or 0),) if found else ()


def _first(batches: Any, most: int) -> Iterator[Any]:
    most = most if _is_open(batches.element_spec) else _FEW
    begin, held_bytes = time.perf_counter(), 0
    for count, batch in enumerate(batches, start=1):
        yield batch
        held_bytes += sum(_bytes(part) for part in _parts(batch))
        too_much = time.perf_counter() - begin > _MOST_S or held_bytes > _MOST_BYTES
        if count >= most or (count >= _FEW and too_much):
            return


def _is_open(spec: Any) -> bool:
    """Whether batches may differ in more than how many samples they hold."""
    return any(_is_open_leaf(leaf) for leaf in tf.nest.flatten(spec))


def _is_open_leaf(leaf: Any) -> bool:
    if not isinstance(leaf, tf.TensorSpec):
        return isinstance(leaf, tf.RaggedTensorSpec | tf.SparseTensorSpec)
    return leaf.shape.rank is None or None in leaf.shape[1:].as_list()


def _lengths(batch: Any) -> tuple[Any, ...]:
    """What a short last batch does not differ in."""
    return tuple(
        tuple(leaf.shape[1:])
        if isinstance(leaf, tf.Tensor)
        else tuple(tuple(part.shape) for part in _parts(leaf))
        for leaf in tf.nest.flatten(batch)
    )


def _parts(batch: Any) -> list[tf.Tensor]:
    parts = tf.nest.flatten(batch, expand_composites=True)
    return [part for part in parts if isinstance(part, tf.Tensor)]


def _bytes(part: Any) -> int:
    return int(part.shape.num_elements() or 0) * int(part.dtype.size)
