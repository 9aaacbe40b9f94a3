"""A map function turned into one that takes a whole batch: called once where it was called often.

Starting a function costs TensorFlow more than a few numbers or one short string are worth. The
function is not written anew and the user's is not traced again: its graph is replayed under
``tf.vectorized_map``, which replaces every op by the one that does the same to stacked elements.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_fields import int_parameter, parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import copy_with_fields
from uncork.compat.tfdata.nested import batch_spec
from uncork.compat.tfdata.structured_function import MapFunction, derive_map_function
from uncork.pipeline.functions.batched_ops import (
    extend_pfor_converters,
    find_ragged_parsers,
    split_batchable_tail,
    unbatched_ops,
)
from uncork.pipeline.functions.effects import READ_OPS
from uncork.pipeline.functions.function_graph import (
    ConcreteFunction,
    Graph,
    graph_of,
    replay,
    trace,
)
from uncork.pipeline.functions.ragged_rows import (
    RaggedRows,
    find_ragged_rows,
    has_other_splits,
    has_padded_shape,
    is_made_of_words,
    is_paddable_vector,
    pad_rows,
)
from uncork.pipeline.functions.splitting import MapSplit
from uncork.pipeline.ir.builders import unpadded_batch
from uncork.pipeline.ir.node import Node

_Filling = tuple[tuple[tuple[int, ...], Any], ...]
_Made = tuple[MapSplit | None, ConcreteFunction]
# Where a function remembers what became of it.
_DONE: Final = "_uncork_stacked"


@dataclass(frozen=True)
class VectorizedMap:
    """What a map becomes around its batch.

    Attributes:
        function: Takes whole batches, behind the batch.
        unbatched_function: What stays before it, for one element after the other; None where
            nothing does.
        unbatched_ops: Kinds of the last ops before it that none does for a batch.
    """

    function: MapFunction
    unbatched_function: MapFunction | None = None
    unbatched_ops: tuple[str, ...] = ()


def vectorize_map(node: Node, batch: Node) -> VectorizedMap | None:
    """The map's function for the elements of one batch; None where an op of it cannot be stacked.

    Where files are read or decoded first, what follows.

    Args:
        node: A map that may be moved above it.
        batch: The batch.
    """
    function, size, filling = node.functions[0], _static_size(batch), _filling(batch)
    # They hold the function, and go with it. -0.0 equals 0.0.
    made, key = function.__dict__.setdefault(_DONE, {}), (size, repr(filling))
    if key not in made:
        given = tf.nest.flatten(node.dataset.element_spec)
        taken = tf.nest.flatten(node.inputs[0].dataset.element_spec)
        made[key] = _made(function, taken, given, size, filling)
    found = made[key]
    if found is None:
        return None
    cut, at_once = found
    structure = _batched(node.dataset.element_spec, size)
    if batch.kind == "padded_batch":
        structure = batch.dataset.element_spec
    own = parameter(node.dataset, "map_func")
    if cut is None:
        return VectorizedMap(derive_map_function(own, at_once, structure))
    first = derive_map_function(own, cut.prefix, cut.specs)
    return VectorizedMap(derive_map_function(own, at_once, structure), first, unbatched_ops(cut))


def _made(
    function: ConcreteFunction,
    taken: list[tf.TensorSpec],
    given: list[tf.TensorSpec],
    size: int | None,
    filling: _Filling | None,
) -> _Made | None:
    whole = _traced(function, _stacked(taken, size), given, filling)
    if whole is not None:
        return None, whole
    cut = split_batchable_tail(function)
    rest = _traced(cut.rest, _stacked(cut.specs, size), given, filling) if cut else None
    return None if rest is None else (cut, rest)


def rebuild_batch(input_dataset: Dataset, batch: Node) -> Dataset:
    """The same batch of other elements."""
    structure = _batched(input_dataset.element_spec, _static_size(batch))
    if batch.kind == "padded_batch":
        return unpadded_batch(input_dataset, batch.dataset, structure)
    return copy_with_fields(
        batch.dataset, [input_dataset], kind_of(batch.dataset), structure=structure
    )


def batch_size_of(batch: Node) -> int:
    """Elements of a full batch."""
    return int_parameter(batch.dataset, "batch_size")


def _static_size(batch: Node) -> int | None:
    # As Dataset.batch does it: the size is known beforehand only where the last one is dropped.
    return (
        batch_size_of(batch)
        if bool(np.asarray(parameter(batch.dataset, "drop_remainder")))
        else None
    )


def _filling(batch: Node) -> _Filling | None:
    """Of a padded batch, the shape that each part of an element gets, and what fills it up."""
    if batch.kind != "padded_batch":
        return None
    shapes, values = (
        [each.numpy() for each in map(tf.convert_to_tensor, tf.nest.flatten(parts))]
        for parts in (
            parameter(batch.dataset, "padded_shapes"),
            parameter(batch.dataset, "padding_values"),
        )
    )
    return tuple(
        (tuple(shape.tolist()), np.asarray(value).item())
        for shape, value in zip(shapes, values, strict=True)
    )


def _batched(spec: Any, size: int | None) -> Any:
    return tf.nest.map_structure(lambda part: batch_spec(part, size), spec)


def _stacked(specs: Iterable[tf.TensorSpec], size: int | None) -> list[tf.TensorSpec]:
    return [batch_spec(part, size) for part in specs]


def _traced(
    function: ConcreteFunction,
    taken: list[tf.TensorSpec],
    given: list[tf.TensorSpec],
    filling: _Filling | None,
) -> ConcreteFunction | None:
    """The function on stacked elements.

    Args:
        function: On one.
        taken: Of stacked elements.
        given: Of what it gives of one.
        filling: Of a padded batch.
    """
    graph = graph_of(function)
    if any(graph.nodes[name].op not in READ_OPS for name in graph.effects):
        return None  # an assertion or a print: it speaks of one element
    try:
        rows = _rows(graph, given, filling)
    except (tf.errors.OpError, TypeError, ValueError):  # ops tried out on words that no line has
        return None
    if rows is None:
        return None
    fetched = [rows[i].text if i in rows else name for i, name in enumerate(graph.outputs)]
    # What its effects read needs no order; what only rows of unequal length need is made by them.
    names = graph.required_ops(fetched, with_control_inputs=not rows)
    uneven = find_ragged_parsers(graph, [*fetched, *graph.consumed_tensors(names)])
    if uneven or any(has_other_splits(graph, each, names) for each in rows.values()):
        return None  # how many words there are, say: as many of each line would be stacked

    def one(element: list[Any]) -> list[Any]:
        feeds = dict(zip((f"{a}:0" for a in graph.arguments), element, strict=True))
        return replay(graph, names, feeds, fetched)

    def all_at_once(*stacked: Any) -> list[Any]:
        made = list(tf.vectorized_map(one, list(stacked), fallback_to_while_loop=False, warn=False))
        for i, each in rows.items():
            assert filling is not None
            made[i] = pad_rows(graph, each, made[i], filling[i][1])
        return made

    with extend_pfor_converters(), _hushed():
        try:
            return trace("uncork_vectorized", taken, all_at_once)
        except Exception:  # whatever pfor raises for an op that it cannot stack
            return None


def _rows(
    graph: Graph, given: list[tf.TensorSpec], filling: _Filling | None
) -> dict[int, RaggedRows] | None:
    """Which outputs are rows of unequal length, and how they are made.

    Returns:
        None where that is not known, or something else must be filled up.
    """
    found: dict[int, RaggedRows] = {}
    for i, (shape, _) in enumerate(filling or ()):
        if has_padded_shape(given[i], shape):
            if shape and is_made_of_words(graph, graph.outputs[i]):
                return None  # as many as was said, perhaps: a padded batch fills up in silence
            continue
        rows = (
            find_ragged_rows(graph, graph.outputs[i])
            if is_paddable_vector(given[i], shape)
            else None
        )
        if rows is None:
            return None
        found[i] = rows
    return found


@contextmanager
def _hushed() -> Iterator[None]:
    """Keep the vectoriser from printing, as an error, what is an answer to us."""
    logger = tf.get_logger()
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
