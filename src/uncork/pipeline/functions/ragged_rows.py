"""Rows of unequal length, made at once: lines that a map splits into words, for a padded batch.

TensorFlow's vectoriser stacks what is of one shape, and words of a line are not. But what a map
does to them is mostly done place by place: looked up, hashed, turned into numbers, cut off behind
the first so many. On the words of all lines in one vector that gives what it gives on each line's
own, and rows are filled up from there as ``padded_batch`` fills them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.pipeline.functions.batched_ops import ELEMENTWISE_STRING_OPS
from uncork.pipeline.functions.function_graph import (
    Graph,
    Tensor,
    indexed_name,
    is_control,
    op_name_of,
    replay,
    trace,
)

# Which input holds the row; all others are the same for every element.
_PLACE_BY_PLACE: Final = {
    **dict.fromkeys(ELEMENTWISE_STRING_OPS - {"DecodeRaw", "DecodePaddedRaw"}, 0),
    **dict.fromkeys(("Identity", "Cast", "Abs", "Neg", "Sign", "LogicalNot"), 0),
    "LookupTableFindV2": 1,
}
# One of the two inputs holds the row, the other a single number that is the same for every element.
_WITH_A_NUMBER: Final = frozenset({
    "AddV2", "Sub", "Mul", "Maximum", "Minimum", "FloorMod", "FloorDiv", "Equal", "NotEqual",
    "Greater", "GreaterEqual", "Less", "LessEqual",
})  # fmt: skip
_EVERY: Final = math.inf  # place
# Numbers of words with which it is tried out whether a slice takes all words of a line.
_TRIED: Final = (0, 1, 2, 3, 7, 100, 10_000)
# What the offsets of a ragged row are computed by.
_OFFSETS: Final = frozenset({
    "AddV2", "Bincount", "Cast", "ConcatV2", "Const", "Cumsum", "DenseBincount", "Greater",
    "Identity", "Max", "Maximum", "Minimum", "Mul", "NoOp", "Pack", "Reshape", "Size",
    "StridedSlice",
})  # fmt: skip


@dataclass(frozen=True)
class RowTruncation:
    """Of every row no more than its first places.

    Attributes:
        source: The tensor that is cut.
        result: What is left of it.
        max_length: So many places.
    """

    source: str
    result: str
    max_length: int


@dataclass(frozen=True)
class RaggedRows:
    """How an output is made of the words of one string.

    Attributes:
        split_op: Name of the op that splits it.
        text: The string, as a vector of one.
        words: The tensor of its words.
        truncations: From the words to the output.
        output: The tensor that is given.
    """

    split_op: str
    text: str
    words: str
    truncations: tuple[RowTruncation, ...]
    output: str


def find_ragged_rows(graph: Graph, output: str) -> RaggedRows | None:
    """What makes an output of unequal length; None where that is more than this file knows.

    Args:
        graph: Of a map's function, which takes elements of one shape.
        output: One of its outputs, a vector.
    """
    cuts: list[RowTruncation] = []
    reference = output
    while (split := _split_behind(graph, reference)) is None:
        node = graph.nodes[op_name_of(reference)]
        cut = node.op == "StridedSlice"
        row = indexed_name(node.input[0]) if cut else _row_taken(graph, node)
        most = _first_places(graph, node) if cut else _EVERY
        if row is None or most is None:
            return None
        if most < _EVERY:
            cuts.insert(0, RowTruncation(row, reference, int(most)))
        reference = row
    text = indexed_name(graph.nodes[split].input[0])
    return RaggedRows(split, text, reference, tuple(cuts), output)


def has_other_splits(graph: Graph, rows: RaggedRows, op_names: Collection[str]) -> bool:
    """Whether some of a function's ops split the string of some rows, too.

    Args:
        graph: Of the function.
        rows: Of one of its outputs.
        op_names: Of the ops.
    """
    text = _handed_on(graph, rows.text)
    splits = (graph.nodes[name] for name in op_names if graph.nodes[name].op == "StringSplitV2")
    return any(_handed_on(graph, indexed_name(each.input[0])) == text for each in splits)


def _handed_on(graph: Graph, reference: str) -> str:
    """The string that is made a vector of one."""
    while graph.nodes[op_name_of(reference)].op in ("Pack", "Reshape", "ExpandDims", "Identity"):
        reference = indexed_name(graph.nodes[op_name_of(reference)].input[0])
    return reference


def pad_rows(graph: Graph, rows: RaggedRows, texts: Tensor, padding_value: Any) -> Tensor:
    """The rows of a whole batch, each filled up to the longest.

    Args:
        graph: Of the map's function.
        rows: How one of its outputs is made.
        texts: The strings of all elements.
        padding_value: What the padded batch fills up with.
    """
    node = graph.nodes[rows.split_op]
    parts = tf.raw_ops.StringSplitV2(
        input=tf.reshape(texts, [-1]),
        sep=_constant(graph, node.input[1]).item(),
        maxsplit=node.attr["maxsplit"].i,
    )
    ragged = tf.RaggedTensor.from_value_rowids(
        parts.values, parts.indices[:, 0], parts.shape[0], validate=False
    )
    reached = rows.words
    for cut in rows.truncations:
        ragged = _mapped(graph, ragged, reached, cut.source)
        ragged, reached = ragged[:, : cut.max_length], cut.result
    return _mapped(graph, ragged, reached, rows.output).to_tensor(default_value=padding_value)


def _mapped(graph: Graph, rows: Any, reached: str, wanted: str) -> Any:
    """What the function makes of one tensor of it, made of all rows in one vector."""
    names = graph.required_ops([wanted], stop=[reached], with_control_inputs=False)
    (values,) = replay(graph, names, {reached: rows.flat_values}, [wanted])
    return rows.with_flat_values(values)


def _split_behind(graph: Graph, reference: str) -> str | None:
    """Name of the op whose words a tensor holds, all of one string's; None where it does not."""
    if _is_words(graph, reference):
        return op_name_of(reference)
    node = graph.nodes[op_name_of(reference)]
    if node.op != "StridedSlice" or not _is_words(graph, indexed_name(node.input[0])):
        return None
    split = op_name_of(node.input[0])
    return split if _takes_all(graph, node, split) else None


def _is_words(graph: Graph, reference: str) -> bool:
    node = graph.nodes[op_name_of(reference)]
    if node.op != "StringSplitV2" or reference != f"{node.name}:1":
        return False
    text = indexed_name(node.input[0])
    return _shape(graph, text) == [1] and _constant(graph, node.input[1]) is not None


def _takes_all(graph: Graph, node: Any, split: str) -> bool:
    """A slice from the first to the last word, however many there are.

    Of one string, a ragged row is taken out of one: between its first and last offset, which follow
    from the number of words alone. They are computed for some numbers.
    """
    if node.attr["end_mask"].i or node.attr["begin_mask"].i or _reshapes(node):
        return False
    asked = [indexed_name(reference) for reference in node.input[1:4]]
    ends = {f"{split}:0", f"{split}:2"}
    names = graph.required_ops(asked, stop=ends, with_control_inputs=False)
    if any(not _is_of_offsets(graph, name) for name in names):
        return False

    def offsets(places: Tensor, shape: Tensor) -> list[Tensor]:
        fed = {f"{split}:0": places, f"{split}:2": shape}
        return replay(graph, names, fed, asked)

    specs = [tf.TensorSpec([None, 2], tf.int64), tf.TensorSpec([2], tf.int64)]
    computed = trace("uncork_offsets", specs, offsets)
    return all(_are_all(computed, number) for number in _TRIED)


def _is_of_offsets(graph: Graph, name: str) -> bool:
    node = graph.nodes[name]
    bounded = node.op == "Minimum" and any(
        _constant(graph, each) is not None for each in node.input
    )
    return node.op in _OFFSETS and not bounded


def _are_all(computed: Any, number: int) -> bool:
    places = np.stack([np.zeros(number, np.int64), np.arange(number)], axis=1)
    found = computed(tf.constant(places), tf.constant([1, number], tf.int64))
    return [np.asarray(each).tolist() for each in found] == [[0], [number], [1]]


def _first_places(graph: Graph, node: Any) -> float | None:
    """How many of the first places a slice takes; None where it takes others."""
    if _reshapes(node):
        return None
    begin, end, strides = (_constant(graph, reference) for reference in node.input[1:4])
    if begin is None or end is None or strides is None:
        return None
    if not begin.size:
        return _EVERY  # ``x[...]``
    if (
        begin.size != 1
        or strides.item() != 1
        or not (begin.item() == 0 or node.attr["begin_mask"].i)
    ):
        return None
    if node.attr["end_mask"].i:
        return _EVERY
    return int(end.item()) if end.item() >= 0 else None


def _reshapes(node: Any) -> bool:
    masks = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return any(node.attr[mask].i for mask in masks)


def _row_taken(graph: Graph, node: Any) -> str | None:
    """The row that an op takes, if it works on each place of it by itself."""
    data = [indexed_name(reference) for reference in node.input if not is_control(reference)]
    row: str | None = None
    if node.op in _PLACE_BY_PLACE:
        row = data[_PLACE_BY_PLACE[node.op]]
    elif node.op in _WITH_A_NUMBER:
        row = next((reference for reference in data if _varies(graph, reference)), None)
    others = [reference for reference in data if reference != row]
    alike = all(_rank(graph, each) == 0 and not _varies(graph, each) for each in others)
    return row if alike else None


def _varies(graph: Graph, reference: str) -> bool:
    return not graph.required_ops([reference], with_control_inputs=False).isdisjoint(
        graph.arguments
    )


def _rank(graph: Graph, reference: str) -> int | None:
    rank: int | None = _shape(graph, reference).rank
    return rank


def _shape(graph: Graph, reference: str) -> tf.TensorShape:
    return graph.shapes[op_name_of(reference)][int(reference.rpartition(":")[2])]


def _constant(graph: Graph, reference: str) -> Any:
    """Its value; None where it is none."""
    node = graph.nodes[op_name_of(reference)]
    return tf.make_ndarray(node.attr["value"].tensor) if node.op == "Const" else None


def is_made_of_words(graph: Graph, output: str) -> bool:
    """It is made of the words of some string."""
    names = graph.required_ops([output], with_control_inputs=False)
    return any(graph.nodes[name].op == "StringSplitV2" for name in names)


def has_padded_shape(spec: tf.TensorSpec, padded_shape: Sequence[int]) -> bool:
    """An output that a padded batch need not fill up."""
    return bool(spec.shape.is_fully_defined()) and all(
        asked in (-1, size) for asked, size in zip(padded_shape, spec.shape, strict=True)
    )


def is_paddable_vector(spec: tf.TensorSpec, padded_shape: Sequence[int]) -> bool:
    """A vector of any length, which is filled up to the longest of its batch."""
    return spec.shape.rank == 1 and not spec.shape.is_fully_defined() and list(padded_shape) == [-1]
