"""A map function turned into one that takes a whole batch: called once where it was called often.

Starting a function costs TensorFlow more than a few numbers or one short string are worth. The
function is not written anew and the user's is not traced again: its graph is replayed under
``tf.vectorized_map``, which replaces every op by the one that does the same to stacked elements.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from uncork.pipeline.effects import READS
from uncork.pipeline.graphs import ConcreteFunction, graph_of, replay, trace
from uncork.pipeline.kinds import Dataset, kind_of
from uncork.pipeline.node import Node
from uncork.pipeline.nodes import MapFunction, derived
from uncork.pipeline.rebuild import make
from uncork.pipeline.stacked_ops import known

_done: weakref.WeakKeyDictionary[ConcreteFunction, dict[int | None, ConcreteFunction | None]] = (
    weakref.WeakKeyDictionary()
)


def vectorized(node: Node, batch: Node) -> MapFunction | None:
    """The map's function for the elements of one batch; None where an op of it cannot be stacked.

    Args:
        node: A map that may be moved above it.
        batch: The batch.
    """
    function, size = node.functions[0], _static_size(batch)
    made = _done.setdefault(function, {})
    if size not in made:
        made[size] = _traced(function, _stacked(_below(node), size))
    found = made[size]
    if found is None:
        return None
    return derived(node.dataset._map_func, found, _batched(node.dataset.element_spec, size))


def batched(below: Dataset, batch: Node) -> Dataset:
    """The same batch of other elements."""
    structure = _batched(below.element_spec, _static_size(batch))
    return make(batch.dataset, [below], kind_of(batch.dataset), _structure=structure)


def batch_size(batch: Node) -> int:
    """Elements of a full batch."""
    return int(np.asarray(batch.dataset._batch_size))


def _static_size(batch: Node) -> int | None:
    # As Dataset.batch does it: the size is known beforehand only where the last one is dropped.
    return batch_size(batch) if bool(np.asarray(batch.dataset._drop_remainder)) else None


def _below(node: Node) -> Any:
    return node.inputs[0].dataset.element_spec


def _batched(spec: Any, size: int | None) -> Any:
    return tf.nest.map_structure(lambda part: part._batch(size), spec)


def _stacked(spec: Any, size: int | None) -> list[tf.TensorSpec]:
    return [part._batch(size) for part in tf.nest.flatten(spec)]


def _traced(function: ConcreteFunction, specs: list[tf.TensorSpec]) -> ConcreteFunction | None:
    graph = graph_of(function)
    if any(graph.nodes[name].op not in READS for name in graph.effects):
        return None  # an assertion or a print: it speaks of one element
    names = graph.needed(graph.outputs)

    def one(element: list[Any]) -> list[Any]:
        feeds = dict(zip((f"{a}:0" for a in graph.arguments), element, strict=True))
        return replay(graph, names, feeds, graph.outputs)

    def all_at_once(*stacked: Any) -> list[Any]:
        return list(tf.vectorized_map(one, list(stacked), fallback_to_while_loop=False, warn=False))

    with known(), _hushed():
        try:
            return trace("uncork_vectorized", specs, all_at_once)
        except Exception:  # whatever pfor raises for an op that it cannot stack
            return None


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
