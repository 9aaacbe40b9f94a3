"""How much the values of two pipelines differ that should differ by rounding only.

A kernel may add up the same numbers in another order when it is given a whole batch. What comes out
then is as right as before, and differs in its last places.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.pipeline.equivalence.seeded_twin import preserve_state
from uncork.pipeline.ir.tree import read_pipeline

# The distance from 1 to the next number. What has other types must be equal.
_EPSILON: Final = {
    "bfloat16": 2.0**-7,
    "float16": 2.0**-10,
    "float32": 2.0**-23,
    "float64": 2.0**-52,
    "complex64": 2.0**-23,
    "complex128": 2.0**-52,
}
_END: Final = object()


@dataclass(frozen=True)
class Closeness:
    """What comparing two pipelines element by element found.

    Attributes:
        element_count: Compared, of all passes.
        max_ulps: How many times the spacing of numbers at the largest one of a row any two differ;
            a row is what a tensor holds for one sample.
        failure: What is no matter of rounding, as a sentence; empty where nothing is.
        is_complete: Both ended by themselves, in all passes.
    """

    element_count: int
    max_ulps: float
    failure: str
    is_complete: bool


def compare_closeness(
    original: Dataset,
    edited: Dataset,
    *,
    epochs: int = 2,
    max_elements: int = 10_000,
    max_s: float = 30.0,
) -> Closeness:
    """Iterate both side by side.

    Args:
        original: Any ``tf.data.Dataset``; variables that its functions change are put back.
        edited: What is held against it.
        epochs: Passes over them.
        max_elements: Elements of each pass.
        max_s: For all passes together, shared out equally.

    Example:
        >>> thirds = tf.data.Dataset.range(1, 9).map(lambda x: tf.cast(x, tf.float32) / 3.0)
        >>> others = tf.data.Dataset.range(1, 9).map(lambda x: tf.cast(x, tf.float32) * (1.0 / 3.0))
        >>> found = compare_closeness(thirds, others)
        >>> found.failure, 0 < found.max_ulps <= 1, found.element_count
        ('', True, 16)
    """
    elements, ulps, complete = 0, 0.0, True
    with preserve_state(read_pipeline(original)), preserve_state(read_pipeline(edited)):
        for epoch in range(1, epochs + 1):
            deadline = time.monotonic() + max_s / epochs
            pairs = zip(_elements(original), _elements(edited), strict=False)
            for number, (ours, theirs) in enumerate(itertools.islice(pairs, max_elements)):
                failure, apart = _apart(ours, theirs)
                if failure:
                    failure = f"epoch {epoch}: element {number} {failure}"
                    return Closeness(elements, ulps, failure, is_complete=False)
                if ours is _END or isinstance(ours, type):
                    complete &= ours is _END
                    break
                elements, ulps = elements + 1, max(ulps, apart)
                if time.monotonic() > deadline:
                    complete = False
                    break
            else:
                complete = False
    return Closeness(elements, ulps, "", complete)


def _elements(dataset: Dataset) -> Iterator[Any]:
    """What it gives, then the class of its error or its end."""
    try:
        yield from dataset
    except tf.errors.OpError as error:
        yield type(error)
    else:
        yield _END


def _apart(ours: Any, theirs: Any) -> tuple[str, float]:
    """What is no matter of rounding, and how far apart the rest is."""
    ends = [each for each in (ours, theirs) if each is _END or isinstance(each, type)]
    if ends:
        return ("" if ours is theirs else "exists in only one of the two pipelines"), 0.0
    one, other = (tf.nest.flatten(each, expand_composites=True) for each in (ours, theirs))
    if len(one) != len(other):
        return "has a different structure", 0.0
    furthest = 0.0
    for a, b in zip(one, other, strict=True):
        tensors = isinstance(a, tf.Tensor) and isinstance(b, tf.Tensor) and a.dtype != tf.variant
        if not tensors or a.dtype != b.dtype or a.shape != b.shape:
            return "has a different structure, shape or dtype, or contains more than tensors", 0.0
        found = _ulps(np.asarray(a.numpy()), np.asarray(b.numpy()), a.dtype)
        if found is None:
            return "differs in a value that is not rounded", 0.0
        furthest = max(furthest, found)
    return "", furthest


def _ulps(one: Any, other: Any, dtype: tf.DType) -> float | None:
    """Of two tensors, None where they differ in more than floating-point numbers."""
    epsilon = _EPSILON.get(dtype.name)
    if epsilon is None:
        return 0.0 if np.array_equal(one, other) else None
    wide = np.complex128 if dtype.is_complex else np.float64
    a: np.ndarray[Any, Any]
    b: np.ndarray[Any, Any]
    a, b = (
        np.atleast_1d(each.astype(wide)).reshape(max(1, len(np.atleast_1d(each))), -1)
        for each in (one, other)
    )
    finite = np.isfinite(a)
    same = np.array_equal(finite, np.isfinite(b))
    if not same or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return None
    a, b = np.where(finite, a, 0.0), np.where(finite, b, 0.0)
    if not a.size:
        return 0.0
    difference, largest = np.abs(a - b).max(1), np.abs(a).max(1)
    if (difference[largest == 0] > 0).any():
        return math.inf
    scale = np.where(largest == 0, 1.0, largest)
    return float(np.max(difference / scale) / epsilon)
