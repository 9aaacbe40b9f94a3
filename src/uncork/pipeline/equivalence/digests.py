"""What a dataset gives, as digests: two pipelines are equal when their digests are.

A digest covers structure, dtype, shape and bytes of one element. It is taken with the errors and
the ends where they fall, so a pipeline that fails at element 17 equals only one that does too.
"""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.pipeline.equivalence.seeded_twin import preserve_state
from uncork.pipeline.ir.tree import read_pipeline


@dataclass(frozen=True)
class IterationError:
    """An error that iterating raised.

    Attributes:
        index: Elements of that epoch that came before it.
        type: Class of the exception.
        message: Its first line, without the names of graph nodes and iterators.
    """

    index: int
    type: str
    message: str


@dataclass(frozen=True)
class EpochDigests:
    """One pass.

    Attributes:
        digests: 16 hexadecimal digits per element, in order.
        is_complete: The pass ended by itself, with no limit and no error.
        error: What ended it otherwise.
    """

    digests: tuple[str, ...]
    is_complete: bool
    error: IterationError | None = None


@dataclass(frozen=True)
class ElementDigests:
    """Several passes over one dataset object, so caches and reshuffles act as in training."""

    epochs: tuple[EpochDigests, ...]

    @property
    def is_complete(self) -> bool:
        """All passes ended by themselves."""
        return all(epoch.is_complete for epoch in self.epochs)

    @property
    def element_count(self) -> int:
        """Elements seen in all passes."""
        return sum(len(epoch.digests) for epoch in self.epochs)


def element_digests(
    dataset: Any, *, epochs: int = 2, max_elements: int = 10_000, max_s: float = 30.0
) -> ElementDigests:
    """Iterate a dataset and digest what it gives.

    Args:
        dataset: Any ``tf.data.Dataset``; variables that its functions change are put back.
        epochs: Passes over it.
        max_elements: For each pass; an infinite dataset stops here.
        max_s: For all passes together, shared out equally.

    Example:
        >>> first, second = element_digests(tf.data.Dataset.range(3)).epochs
        >>> first == second, len(first.digests), first.is_complete
        (True, 3, True)
    """
    with preserve_state(read_pipeline(dataset)):
        passes = [_pass(dataset, max_elements, max_s / epochs) for _ in range(epochs)]
    return ElementDigests(tuple(passes))


def _pass(dataset: Any, max_elements: int, max_s: float) -> EpochDigests:
    found: list[str] = []
    deadline, iterator = time.monotonic() + max_s, None
    while len(found) < max_elements and time.monotonic() < deadline:
        try:
            iterator = iter(dataset) if iterator is None else iterator
            element = next(iterator)
        except StopIteration:
            return EpochDigests(tuple(found), is_complete=True)
        except tf.errors.OpError as error:
            failure = IterationError(len(found), type(error).__name__, _cause(str(error.message)))
            return EpochDigests(tuple(found), is_complete=False, error=failure)
        found.append(element_digest(element))  # an error of this is not the pipeline's
    return EpochDigests(tuple(found), is_complete=False)


# Where in the graph it happened: differs between equal pipelines.
_PLACE: Final = re.compile(
    r"\{\{.*?\}\}|\[.*?\]| name: .*"
    r"|Error in user-defined function passed to \S+ transformation with iterator: \S+: "
)


def _cause(message: str) -> str:
    return _PLACE.sub("", message.partition("\n")[0]).strip()


def element_digest(element: Any) -> str:
    """Digest of one element: any nest of tensors, ragged and sparse ones, strings and None."""
    state = hashlib.blake2b(digest_size=8)
    _update(state, element)
    return state.hexdigest()


def _update(state: Any, value: Any) -> None:
    state.update(type(value).__name__.encode())
    if isinstance(value, dict):
        for key in sorted(value, key=repr):
            state.update(repr(key).encode())
            _update(state, value[key])
    elif isinstance(value, (list, tuple)):
        state.update(len(value).to_bytes(8, "little"))
        for part in value:
            _update(state, part)
    elif isinstance(value, tf.Tensor):
        _update_array(state, value)
    elif isinstance(value, tf.data.Dataset):
        _update(state, list(value))
    elif value is not None:
        _update(state, tf.nest.flatten(value, expand_composites=True))


def _update_array(state: Any, tensor: Any) -> None:
    array = np.asarray(tensor.numpy())  # a scalar bfloat16 is no array by itself
    state.update(f"{tensor.dtype.name}{array.shape}".encode())
    if array.dtype == object:
        for text in array.flat:
            state.update(len(text).to_bytes(8, "little") + text)
    else:
        state.update(np.ascontiguousarray(array).tobytes())
