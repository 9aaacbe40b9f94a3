"""From where on could a map's function take whole batches, if not from its beginning?

A file is read and decoded by itself, and decoded images differ in size. What follows once they
have been cropped or resized, a scaling or a spectrum, can be done to a batch of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import tensorflow as tf
from tensorflow.python.ops.parallel_for import pfor

from uncork.pipeline.effects import READS
from uncork.pipeline.graphs import (
    ConcreteFunction,
    Graph,
    NodeDef,
    called,
    full_name,
    graph_of,
    is_control,
    op_of,
    spec_of,
)
from uncork.pipeline.splitting import NO_WORK, Split, crossing, varying
from uncork.pipeline.stacked_ops import known, unevenly_parsed

# Neither is converted: a constant is the same for all, an argument of a branch is given to it.
_GIVEN: Final = frozenset({"Const", "Placeholder", "NoOp"})


def tail(function: ConcreteFunction) -> Split | None:
    """Cut a function behind all ops that TensorFlow cannot do to a stack of elements.

    Returns:
        None where there are none, where no work is left behind them, or where that begins with
        tensors that differ in shape from element to element.

    Example:
        >>> @tf.function
        ... def load(name):
        ...     sound, _ = tf.audio.decode_wav(tf.io.read_file(name), 1, 16000)
        ...     return tf.signal.rfft(sound[:, 0])
        >>> cut = tail(load.get_concrete_function(tf.TensorSpec([], tf.string)))
        >>> cut.specs
        (TensorSpec(shape=(16000, 1), dtype=tf.float32, name=None),)
    """
    graph = graph_of(function)
    each = varying(graph)
    with known():
        alone = [name for name in graph.nodes if name in each and not _stacks(graph, name)]
    used = {*graph.outputs, *graph.taken(graph.nodes)}
    alone += sorted(each & unevenly_parsed(graph, used) - set(alone))
    effects = [name for name in graph.effects if graph.nodes[name].op not in READS]
    if not alone and not effects:
        return None
    inside = {*graph.arguments, *graph.needed([*(f"{n}:0" for n in alone), *effects])}
    while True:
        cut = crossing(graph, inside)
        uneven = {reference for reference in cut if not _is_even(graph, reference)}
        if not uneven:
            break
        users = set(_users(graph, uneven)) - inside
        if not users:
            return None  # an output
        inside |= graph.needed(f"{name}:0" for name in users)
    work = [n for n in each - inside if graph.nodes[n].op not in NO_WORK]
    before = [n for n in inside & each if graph.nodes[n].op not in NO_WORK]
    if not cut or not work:
        return None
    specs = tuple(spec_of(graph, reference) for reference in cut)
    return Split(function, cut, specs, len(before), frozenset(inside))


def behind(cut: Split) -> tuple[str, ...]:
    """Kinds of the ops that a function is cut behind."""
    graph = graph_of(cut.source)
    last = (op_of(r) for r in cut.frontier if op_of(r) not in graph.arguments)
    return tuple(dict.fromkeys(graph.nodes[name].op for name in last))


def _stacks(graph: Graph, name: str) -> bool:
    return name in graph.arguments or _converts(graph.nodes[name])


def _converts(node: NodeDef) -> bool:
    """Whether the vectoriser knows an op; it knows no branches and loops of a replayed function."""
    return node.op in _GIVEN or (node.op in pfor._pfor_converter_registry and not any(called(node)))


def _is_even(graph: Graph, reference: str) -> bool:
    """A tensor that has one shape for all elements, so that a batch can hold it."""
    spec = spec_of(graph, reference)
    return bool(spec.shape.is_fully_defined()) and spec.dtype not in (tf.variant, tf.resource)


def _users(graph: Graph, references: Iterable[str]) -> Iterator[str]:
    wanted = set(references)
    for name, node in graph.nodes.items():
        taken = {full_name(r) for r in node.input if not is_control(r)}
        if taken & wanted:
            yield op_of(name)
