"""From where on could a map's function take whole batches, if not from its beginning?

A file is read and decoded by itself, and decoded images differ in size. What follows once they
have been cropped or resized, a scaling or a spectrum, can be done to a batch of them.

How ops that TensorFlow's vectoriser does not know work on stacked elements.

``tf.vectorized_map`` goes by a table of ops that knows numbers well and strings hardly. What is
added here parses text and records: names looked up in tables, numbers read from strings, fields
split at commas. The additions hold inside :func:`extend_pfor_converters` only; the user's own use
of ``tf.vectorized_map`` finds the table as TensorFlow made it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tf.pfor import (
    ConversionNotImplementedError,
    converters,
    create_like,
    wrap_tensor,
)
from uncork.pipeline.functions.effects import READ_OPS
from uncork.pipeline.functions.function_graph import (
    ConcreteFunction,
    Graph,
    NodeDef,
    called_functions,
    graph_of,
    indexed_name,
    is_control,
    op_name_of,
    spec_of,
)
from uncork.pipeline.functions.splitting import (
    NO_WORK_OPS,
    MapSplit,
    crossing_tensors,
    element_dependent_ops,
)

PforInput = Any  # pfor's view of one op: its inputs, stacked or equal for all elements
PforOutputs = Any

# One string in, one value out, whatever lies beside it; other inputs are equal for all elements.
ELEMENTWISE_STRING_OPS: Final = frozenset({
    "AsString", "StringToNumber", "StringToHashBucket", "StringToHashBucketFast",
    "StringToHashBucketStrong", "StringLower", "StringUpper", "StringStrip", "StringLength",
    "StaticRegexReplace", "StaticRegexFullMatch", "RegexReplace", "RegexFullMatch", "Substr",
    "DecodeBase64", "EncodeBase64", "DecodeRaw", "DecodePaddedRaw", "UnicodeTranscode",
})  # fmt: skip

_PARSERS: Final = frozenset({"ParseExampleV2", "ParseSingleExample"})
# TensorFlow's own way with them is another one for a stack of elements: it rolls and formats across
# elements, and gives to the next element what has no place in its own, where one alone is an error;
# of a stack of one it squeezes the stack away, too, and it forgets what stands for a missing field.
_OTHERWISE: Final = frozenset({
    "Roll", "StringFormat", "Squeeze", "DecodeCSV",
    *(f"UnsortedSegment{how}" for how in ("Sum", "Max", "Min", "Prod")),
    *(f"SparseSegment{how}{n}" for how in ("Sum", "Mean", "SqrtN")
      for n in ("", "Grad", "WithNumSegments")),
})  # fmt: skip


@contextmanager
def extend_pfor_converters() -> Iterator[None]:
    """Let the vectoriser know the ops of this file for a while, and forget what it does otherwise.

    Example:
        >>> with extend_pfor_converters():
        ...     both = tf.function(lambda s: tf.vectorized_map(tf.strings.length, s))
        ...     both(tf.constant(["a", "bcd"])).numpy().tolist()
        [1, 3]
    """
    forgotten = {op: converters.pop(op) for op in _OTHERWISE if op in converters}
    added = {op: each for op, each in _CONVERTERS.items() if op not in converters}
    converters.update(added)
    try:
        yield
    finally:
        for op in added:
            del converters[op]
        converters.update(forgotten)


def _same_op(given: PforInput, varying: int = 0) -> PforOutputs:
    """The very op, on all elements at once; only one of its inputs may differ between them."""
    inputs = [
        given.stacked_input(i) if i == varying else given.unstacked_input(i)
        for i in range(given.num_inputs)
    ]
    return [wrap_tensor(output, True) for output in create_like(given, inputs)]


def _join(given: PforInput) -> PforOutputs:
    """Strings joined place by place; a single one goes with every place of the others."""
    ranks = [tensor.shape.rank for tensor in given.op.inputs]
    if None in ranks:
        raise ConversionNotImplementedError("strings of unknown rank are joined")
    largest = ranks.index(max(ranks))
    given.stack_inputs([i for i, rank in enumerate(ranks) if rank])
    like = given.input(largest).t
    inputs = []
    for index, rank in enumerate(ranks):
        part = given.input(index)
        spread = part.is_stacked and rank < ranks[largest]
        inputs.append(_spread(part.t, like, ranks[largest]) if spread else part.t)
    return [wrap_tensor(output, True) for output in create_like(given, inputs)]


def _spread(single: Any, like: Any, places: int) -> Any:
    """One string for each element, repeated for each of the element's places."""
    return tf.broadcast_to(tf.reshape(single, [-1, *[1] * places]), tf.shape(like))


def _split(given: PforInput) -> PforOutputs:
    """One string for each element, all of as many fields: as a table of them, or an error."""
    if given.op.inputs[0].shape.as_list() != [1]:
        raise ConversionNotImplementedError("several strings of one element are split in one call")
    strings, separator = given.stacked_input(0), given.unstacked_input(1)
    parts = tf.raw_ops.StringSplitV2(
        input=tf.reshape(strings, [-1]), sep=separator, maxsplit=given.get_attr("maxsplit")
    )
    rows, fields = tf.unstack(parts.shape)
    even = tf.debugging.assert_equal(
        tf.size(parts.values, tf.int64), rows * fields, "lines of one batch differ in their fields"
    )
    with tf.control_dependencies([even]):
        table = tf.reshape(parts.values, tf.stack([rows, fields]))
    places = tf.stack([tf.zeros_like(tf.range(fields)), tf.range(fields)], axis=1)
    return [
        wrap_tensor(places, False),
        wrap_tensor(table, True),
        wrap_tensor(tf.stack([tf.ones_like(fields), fields]), False),
    ]


def _squeeze(given: PforInput) -> PforOutputs:
    """The dimensions by number: without any, those of one element, whose shape must be known."""
    shape = given.op.inputs[0].shape
    named = given.get_attr("squeeze_dims")
    if not named and not shape.is_fully_defined():
        raise ConversionNotImplementedError("dimensions of unknown size are squeezed")
    of_element = named or [axis for axis, size in enumerate(shape) if size == 1]
    axes = [axis + 1 if axis >= 0 else axis for axis in of_element]
    stacked = given.stacked_input(0)
    return [wrap_tensor(tf.squeeze(stacked, axis=axes) if axes else tf.identity(stacked), True)]


def find_ragged_parsers(graph: Graph, used_tensors: Iterable[str]) -> set[str]:
    """Parsers of records whose tensors differ in length from record to record.

    For a batch they would all be padded to the longest record's, in silence.

    Args:
        graph: Of a function of one element.
        used_tensors: Tensors of it that somebody takes.
    """
    return {op_name_of(reference) for reference in used_tensors if _is_uneven(graph, reference)}


def _is_uneven(graph: Graph, reference: str) -> bool:
    node = graph.nodes[op_name_of(reference)]
    if node.op not in _PARSERS:
        return False
    # Three tensors for each sparse feature come first; the shape is one of them.
    sparse = int(reference.rpartition(":")[2]) < 3 * node.attr["num_sparse"].i
    return sparse or not spec_of(graph, reference).shape.is_fully_defined()


_CONVERTERS: Final[dict[str, Callable[[PforInput], PforOutputs]]] = {
    **dict.fromkeys(ELEMENTWISE_STRING_OPS, _same_op),
    "DecodeCSV": _same_op,
    "Squeeze": _squeeze,
    "LookupTableFindV2": functools.partial(_same_op, varying=1),
    "StringJoin": _join,
    "StringSplitV2": _split,
}

# Neither is converted: a constant is the same for all, an argument of a branch is given to it.
_GIVEN: Final = frozenset({"Const", "Placeholder", "NoOp"})


def split_batchable_tail(function: ConcreteFunction) -> MapSplit | None:
    """Cut a function behind all ops that TensorFlow cannot do to a stack of elements.

    Returns:
        None where there are none, where no work is left behind them, or where that begins with
        tensors that differ in shape from element to element.

    Example:
        >>> @tf.function
        ... def load(name):
        ...     sound, _ = tf.audio.decode_wav(tf.io.read_file(name), 1, 16000)
        ...     return tf.signal.rfft(sound[:, 0])
        >>> cut = split_batchable_tail(load.get_concrete_function(tf.TensorSpec([], tf.string)))
        >>> cut.specs
        (TensorSpec(shape=(16000, 1), dtype=tf.float32, name=None),)
    """
    graph = graph_of(function)
    each = element_dependent_ops(graph)
    with extend_pfor_converters():
        alone = [name for name in graph.nodes if name in each and not _stacks(graph, name)]
    used = {*graph.outputs, *graph.consumed_tensors(graph.nodes)}
    alone += sorted(each & find_ragged_parsers(graph, used) - set(alone))
    effects = [name for name in graph.effects if graph.nodes[name].op not in READ_OPS]
    if not alone and not effects:
        return None
    inside = {*graph.arguments, *graph.required_ops([*(f"{n}:0" for n in alone), *effects])}
    while True:
        cut = crossing_tensors(graph, inside)
        uneven = {reference for reference in cut if not _is_even(graph, reference)}
        if not uneven:
            break
        users = set(_users(graph, uneven)) - inside
        if not users:
            return None  # an output
        inside |= graph.required_ops(f"{name}:0" for name in users)
    work = [n for n in each - inside if graph.nodes[n].op not in NO_WORK_OPS]
    before = [n for n in inside & each if graph.nodes[n].op not in NO_WORK_OPS]
    if not cut or not work:
        return None
    specs = tuple(spec_of(graph, reference) for reference in cut)
    return MapSplit(function, cut, specs, len(before), frozenset(inside))


def unbatched_ops(cut: MapSplit) -> tuple[str, ...]:
    """Kinds of the ops that a function is cut behind."""
    graph = graph_of(cut.source)
    last = (op_name_of(r) for r in cut.frontier if op_name_of(r) not in graph.arguments)
    return tuple(dict.fromkeys(graph.nodes[name].op for name in last))


def _stacks(graph: Graph, name: str) -> bool:
    return name in graph.arguments or _converts(graph.nodes[name])


def _converts(node: NodeDef) -> bool:
    """Whether the vectoriser knows an op; it knows no branches and loops of a replayed function."""
    return node.op in _GIVEN or (node.op in converters and not any(called_functions(node)))


def _is_even(graph: Graph, reference: str) -> bool:
    """A tensor that has one shape for all elements, so that a batch can hold it."""
    spec = spec_of(graph, reference)
    return bool(spec.shape.is_fully_defined()) and spec.dtype not in (tf.variant, tf.resource)


def _users(graph: Graph, references: Iterable[str]) -> Iterator[str]:
    wanted = set(references)
    for name, node in graph.nodes.items():
        taken = {indexed_name(r) for r in node.input if not is_control(r)}
        if taken & wanted:
            yield op_name_of(name)
