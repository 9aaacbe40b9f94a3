"""A generator behind ``from_generator`` that yields its elements in chunks.

Each element that TensorFlow asks a Python generator for costs a call from its threads into the
interpreter, some 100 us. A call that gives many costs little more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.compat.tfdata.dataset_fields import parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.generators import iterators_of, new_number
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import GeneratorChunks
from uncork.pipeline.analysis.lookahead_draws import is_prefetching, is_rewritten_by_default
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.python_functions import (
    GeneratorSource,
    GeneratorWrapper,
    generator_source_of,
    has_wrapped_generator,
)
from uncork.pipeline.ir.tree import Pipeline, StageLocation
from uncork.pycode.frames.dataset_lines import source_line_fields

MAX_CHUNK_BYTES: Final = 1 << 20
# What asks a generator for all that it has, or runs ahead of it until it is told to stop.
_READING_ON: Final = frozenset({
    "batch", "padded_batch", "ragged_batch", "map", "filter", "shuffle", "repeat", "prefetch",
    "cache", "options", "model", "assert_cardinality", "skip", "unbatch", "rebatch",
})  # fmt: skip


class ChunkedGenerator(GeneratorWrapper):
    """Stands in for a function behind ``from_generator``: what it yields comes stacked.

    What is plainly an element of the signature is copied as it is. Anything else goes through
    TensorFlow's own code, which converts it, or raises what it always raises. An error comes behind
    the elements that were made before it.

    Args:
        source: What stands behind the user's.
        spec: Of an element.
        max_elements: Of a chunk, at most.
    """

    def __init__(self, source: GeneratorSource, spec: Any, max_elements: int) -> None:
        assert source.next_arrays is not None
        super().__init__(source.function)
        self._source = source
        self._iterators = iterators_of(source.state)
        self._following = source.next_arrays
        self._spec = spec
        self._elements = max_elements
        self._leaves = [Leaf(each) for each in tf.nest.flatten(spec)]
        self._parts = _taken_apart(spec)

    def __call__(self) -> Iterator[Any]:
        """One pass."""
        number = new_number(self._source.state)
        try:
            yield from self._pass(number)
        finally:
            self._iterators.pop(number, None)

    def _pass(self, number: int) -> Iterator[Any]:
        elements, chunk = iter(self.user_function()), Chunk(self._leaves, self._elements)
        failed: Exception | None = None
        while failed is None:
            try:
                element = self._checked(next(elements), number)
            except StopIteration:
                break
            except Exception as error:
                failed = error
                break
            if not chunk.can_add(element):
                yield tf.nest.pack_sequence_as(self._spec, chunk.arrays())
                chunk = Chunk(self._leaves, self._elements)
            chunk.add(element)
        if chunk:
            yield tf.nest.pack_sequence_as(self._spec, chunk.arrays())
        if failed is not None:
            raise failed

    def _checked(self, value: Any, number: int) -> Sequence[Any]:
        """The arrays and numbers of an element.

        Args:
            value: What the user's generator gave.
            number: Of an iterator of TensorFlow's that nobody else asks.
        """
        parts = self._parts(value)
        if parts and all(map(Leaf.is_plain_copy, self._leaves, parts)):
            return parts
        self._iterators[number] = iter([value])
        arrays: Sequence[Any] = self._following(number)
        return arrays


class Leaf:
    """An array of each element, by its spec."""

    def __init__(self, spec: tf.TensorSpec) -> None:
        self.dtype = np.dtype(spec.dtype.as_numpy_dtype)
        self._shape = spec.shape
        self._whole = tuple(spec.shape) if spec.shape.is_fully_defined() else None
        self._range = (spec.dtype.min, spec.dtype.max) if spec.dtype.is_integer else None
        is_number = self._whole == () and self.dtype.kind in "biuf"
        self._scalar = self.dtype.type if is_number else None
        self.is_fixed = self._whole is not None and self.dtype.kind != "O"

    def is_plain_copy(self, part: Any) -> bool:
        """Copying it gives what TensorFlow's conversion would."""
        if type(part) is self._scalar:
            return True
        return self._takes(part) if isinstance(part, np.ndarray) else self._takes_number(part)

    def _takes(self, part: np.ndarray[Any, Any]) -> bool:
        if part.dtype != self.dtype:
            return False
        return part.shape == self._whole or bool(self._shape.is_compatible_with(part.shape))

    def _takes_number(self, part: Any) -> bool:
        if self._whole != ():
            return False
        if isinstance(part, bool | np.bool_):
            return bool(self.dtype == np.bool_)
        if isinstance(part, int | np.integer):
            low, high = self._range or (1, 0)
            return bool(low <= part <= high)
        return isinstance(part, float | np.floating) and np.issubdtype(self.dtype, np.floating)


class Chunk:
    """Elements, copied as they come: a generator may fill the same array anew each time.

    Args:
        leaves: Of an element.
        max_elements: How many it takes.
    """

    def __init__(self, leaves: Sequence[Leaf], max_elements: int) -> None:
        self._dtypes = [leaf.dtype for leaf in leaves]
        self._are_fixed = all(leaf.is_fixed for leaf in leaves)
        self._most = max_elements
        self._texts = [i for i, dtype in enumerate(self._dtypes) if dtype.kind == "O"]
        self._arrays: list[np.ndarray[Any, Any]] = []
        self._count = 0
        self._refused = False

    def __len__(self) -> int:
        """How many there are."""
        return self._count

    def can_add(self, element: Sequence[Any]) -> bool:
        """There is room for it, and it has the shape of those that are there.

        What TensorFlow will refuse is alone: that is told when elements become tensors.
        """
        if not self._count or self._are_fixed:
            return self._count < self._most
        if self._count == self._most or self._refused or self._is_refused(element):
            return False
        return all(np.shape(e) == a.shape[1:] for a, e in zip(self._arrays, element, strict=True))

    def add(self, element: Sequence[Any]) -> None:
        """One more."""
        if not self._arrays:
            shapes = [np.shape(each) for each in element]
            size = sum(d.itemsize * math.prod(s) for d, s in zip(self._dtypes, shapes, strict=True))
            self._most = max(1, min(self._most, MAX_CHUNK_BYTES // max(1, size)))
            self._arrays = [
                np.empty((self._most, *s), d) for d, s in zip(self._dtypes, shapes, strict=True)
            ]
        for array, each in zip(self._arrays, element, strict=True):
            array[self._count, ...] = each  # of text, not the array that holds it
        self._count += 1
        self._refused = not self._are_fixed and self._is_refused(element)

    def _is_refused(self, element: Sequence[Any]) -> bool:
        texts = (element[position] for position in self._texts)
        return not all(isinstance(each, str | bytes) for text in texts for each in np.ravel(text))

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """All of them, stacked."""
        return [array[: self._count] for array in self._arrays]


def create_chunked_generator(node: Node, max_elements: int) -> Dataset | None:
    """The same elements, of which so many are handed over at once.

    Returns:
        None where that cannot be: its function takes arguments, its elements are more than arrays,
        or come in chunks already.

    Example:
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> number = tf.TensorSpec((), tf.int32)
        >>> rows = tf.data.Dataset.from_generator(lambda: range(5), output_signature=number)
        >>> [int(row) for row in create_chunked_generator(read_pipeline(rows).root, 2)]
        [0, 1, 2, 3, 4]
    """
    source, spec = generator_source_of(node), node.dataset.element_spec
    if source is None or source.next_arrays is None or has_wrapped_generator(node):
        return None
    made = tf.data.Dataset.from_generator(
        ChunkedGenerator(source, spec, max_elements),
        output_signature=tf.nest.map_structure(_several, spec),
        name=parameter(node.dataset, "name"),
    )
    vars(made).update(source_line_fields(node.dataset))
    apart = made.unbatch(name=parameter(node.dataset, "name"))
    vars(apart).update(source_line_fields(node.dataset))
    return apart if apart.element_spec == spec else None


def apply_generator_chunks(
    pipeline: Pipeline, place: StageLocation, edit: GeneratorChunks
) -> Dataset:
    """The dataset of the generator, which then yields chunks.

    Args:
        pipeline: The whole pipeline.
        place: Stage of the generator.
        edit: Elements of a chunk.

    Raises:
        EditRefused: It cannot yield chunks, or would run further than it does now.
    """
    reason = "" if is_read_to_end(pipeline, place) else "a later stage may stop before its end"
    if edit.max_elements < 1:
        reason = f"chunks of {edit.max_elements} elements are too small"
    made = None if reason else create_chunked_generator(place.node, edit.max_elements)
    if made is None:
        raise EditRefused(
            f"{place.node} cannot yield chunks: "
            f"{reason or 'it takes arguments, or yields more than arrays'}",
            "a generator of arrays that is read to its end and prefetched",
            "keep it unchanged",
        )
    return made


def is_read_to_end(pipeline: Pipeline, place: StageLocation) -> bool:
    """It is read to its end in each pass, or as far as something has run ahead by then.

    So nobody can tell how far it was asked when the training took a batch.
    """
    if place.pipeline is not pipeline:
        return False  # a join may stop it when another branch ends
    above = pipeline.stages[place.position + 1 :]
    ahead = is_rewritten_by_default(pipeline) or any(
        is_prefetching(node, pipeline.options) for node in above
    )
    return ahead and all(node.kind in _READING_ON for node in above)


def _taken_apart(spec: Any) -> Callable[[Any], Sequence[Any] | None]:
    """A function that finds the parts of an element which is made of tuples and dictionaries."""
    if isinstance(spec, tf.TensorSpec):
        return lambda value: [value]
    if type(spec) is tuple and all(isinstance(each, tf.TensorSpec) for each in spec):
        count = len(spec)
        return lambda value: value if type(value) is tuple and len(value) == count else None
    if type(spec) is dict:
        keys = sorted(spec)
        inner = [_taken_apart(spec[key]) for key in keys]
        return lambda value: (
            _joined(inner, [value[key] for key in keys])
            if type(value) is dict and value.keys() == spec.keys()
            else None
        )
    if type(spec) is tuple:
        inner = [_taken_apart(each) for each in spec]
        return lambda value: (
            _joined(inner, value) if type(value) is tuple and len(value) == len(inner) else None
        )
    return lambda value: None


def _joined(
    inner: Sequence[Callable[[Any], Sequence[Any] | None]], values: Iterable[Any]
) -> list[Any] | None:
    found: list[Any] = []
    for parts_of, value in zip(inner, values, strict=True):
        parts = parts_of(value)
        if parts is None:
            return None
        found += parts
    return found


def _several(spec: Any) -> tf.TensorSpec:
    return tf.TensorSpec([None, *spec.shape] if spec.shape.rank is not None else None, spec.dtype)
