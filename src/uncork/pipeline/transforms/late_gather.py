"""Rows of arrays gathered at the end of a pipeline; before that only row numbers pass it.

A pipeline over arrays in memory slices them, shuffles the slices and puts them together again. What
shuffles, repeats, drops and batches by position does the same to the numbers of the rows, and the
rows of a batch are then gathered at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_fields import parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import rebuild
from uncork.compat.tfdata.structured_function import MapFunction
from uncork.core.base.errors import EditRefused
from uncork.pipeline.functions.function_graph import (
    Graph,
    Tensor,
    constant_value,
    graph_of,
    op_name_of,
    trace,
)
from uncork.pipeline.ir.builders import parallel_map
from uncork.pipeline.ir.node import ROW_GATHER_ATTRIBUTE, Node
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.transforms.vectorize import rebuild_batch

# By the position of an element, and whatever it is.
_BY_POSITION: Final = frozenset({
    "shuffle", "repeat", "take", "skip", "shard", "batch", "prefetch", "options",
    "assert_cardinality",
})  # fmt: skip
_WORDS: Final = (tf.int64, tf.float32)
_BEHIND: Final = frozenset({"prefetch", "options", "assert_cardinality"})


def gather_rows_last(pipeline: Pipeline) -> Dataset:
    """The same elements, their rows gathered by number after batching.

    Raises:
        EditRefused: The source has other elements than arrays of numbers, or a stage changes
            rows before the batch.

    Example:
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> rows = tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4], [5, 6]]).batch(2)
        >>> [node.kind for node in read_pipeline(gather_rows_last(read_pipeline(rows))).stages]
        ['range', 'batch', 'map']
        >>> next(iter(gather_rows_last(read_pipeline(rows)))).numpy().tolist()
        [[1, 2], [3, 4]]
    """
    chain = pipeline.stages
    source = chain[0]
    top = 0
    while top + 1 < len(chain) and chain[top + 1].kind in _BY_POSITION:
        top += 1
    while chain[top].kind in _BEHIND:
        top -= 1
    batches = [node for node in chain[: top + 1] if node.kind == "batch"]
    arrays = _sliced(pipeline)
    if arrays is None or not batches:
        raise EditRefused(
            f"the pipeline starts with {source}, and does more to its rows than select them",
            "arrays of numbers whose rows are only shuffled, repeated, dropped and batched",
            "keep it unchanged",
        )
    tables = [_Table.of(array) for array in arrays]
    below: Dataset = tf.data.Dataset.range(tables[0].length)
    for node in chain[1 : top + 1]:
        is_batch = node.kind == "batch"
        below = rebuild_batch(below, node) if is_batch else rebuild(node.dataset, [below])

    gathered = _gathering(below, tables, chain[top].dataset)
    for node in chain[top + 1 :]:
        gathered = rebuild(node.dataset, [gathered])
    return gathered


def _sliced(pipeline: Pipeline) -> Sequence[Tensor] | None:
    """Arrays of numbers whose rows a pipeline takes, one by one or zipped; None where it does not.

    A zip ends with the shortest of what it joins, so all must be of one length.
    """
    source = pipeline.stages[0]
    alone = source.kind == "from_tensor_slices"
    joined = [branch.stages for branch in pipeline.branches] if source.kind == "zip" else []
    sources = [source] if alone else [stages[0] for stages in joined if len(stages) == 1]
    if not sources or len(sources) < len(joined):
        return None
    kinds = {node.kind for node in sources}
    lengths = {int(node.dataset.cardinality()) for node in sources}
    if kinds != {"from_tensor_slices"} or len(lengths) > 1:
        return None
    if not all(_are_numbers(node.dataset) for node in sources):
        return None
    return [array for node in sources for array in parameter(node.dataset, "tensors")]


def gather_keras_arrays(pipeline: Pipeline) -> Dataset:
    """The pipeline that Keras creates from arrays, its rows gathered by a function.

    There the arrays are elements themselves, joined with the numbers of each batch's rows.

    Raises:
        EditRefused: Uncork does not know this pipeline, or the arrays are sparse.
    """
    chain = pipeline.stages
    arrays, top = _keras_arrays(pipeline), 1
    if arrays is None or not _gathers_rows(chain[top]):
        raise EditRefused(
            "Keras creates another pipeline from these arrays than Uncork knows",
            "dense arrays of numbers whose rows one map gathers",
            "keep them unchanged",
        )
    below = pipeline.branches[0].dataset
    gathered = _gathering(below, [_Table.of(each) for each in arrays], chain[top].dataset)
    for node in chain[top + 1 :]:
        gathered = rebuild(node.dataset, [gathered])
    return gathered


def _keras_arrays(pipeline: Pipeline) -> Sequence[Tensor] | None:
    """The arrays that batches of numbers are joined with; None where there are none."""
    joint, branches = pipeline.stages[0], pipeline.branches
    if joint.kind != "zip" or len(branches) != 2 or len(pipeline.stages) < 2:  # numbers, arrays
        return None
    kinds = [node.kind for node in branches[1].stages]
    source = branches[1].stages[0].dataset
    if kinds != ["from_tensors", "repeat"] or not _are_numbers(source):
        return None
    return list(parameter(source, "tensors"))


def _gathers_rows(node: Node) -> bool:
    """A map of numbers and arrays that gives those rows of each array, and nothing else."""
    if node.kind != "map":
        return False
    graph = graph_of(node.functions[0])
    numbers, *arrays = graph.arguments
    return (
        not graph.effects
        and len(graph.outputs) == len(arrays)
        and all(
            _gathers(graph, output, array, numbers)
            for output, array in zip(graph.outputs, arrays, strict=True)
        )
    )


def _gathers(graph: Graph, output: str, array: str, numbers: str) -> bool:
    node = graph.nodes[skip_identities(graph, output)]
    if node.op != "GatherV2" or node.attr["batch_dims"].i:
        return False
    *given, axis = (skip_identities(graph, each) for each in node.input[:3])
    is_first = graph.nodes[axis].op == "Const" and not constant_value(graph.nodes[axis]).any()
    return given == [array, numbers] and is_first


def skip_identities(graph: Graph, reference: str) -> str:
    """Name of the op that made a tensor, whatever handed it on."""
    name = op_name_of(reference)
    while graph.nodes[name].op == "Identity":
        name = op_name_of(graph.nodes[name].input[0])
    return name


def _gathering(below: Dataset, tables: Sequence[_Table], template: Dataset) -> Dataset:
    """A map that gathers rows by the numbers below it, in the form of another dataset's elements.

    Args:
        below: Of numbers.
        tables: Of rows.
        template: What gave these rows so far, put together in batches.
    """

    def gather(numbers: Tensor) -> list[Tensor]:
        return [table.rows(numbers) for table in tables]

    function = trace("uncork_gather", [below.element_spec], gather)
    gathered = parallel_map(below, MapFunction(function, template.element_spec), template)
    setattr(gathered, ROW_GATHER_ATTRIBUTE, True)
    return gathered


@dataclass(frozen=True)
class _Table:
    """Rows, held in a dtype that a GPU can gather.

    TensorFlow has GPU kernels that gather floats and 64-bit integers, and none for bytes; 32-bit
    integers stay in the host's memory. The same bits are gathered as what there are kernels for.

    Attributes:
        words: The rows.
        dtype: Their own.
        shape: Of a row.
    """

    words: Tensor
    dtype: tf.DType
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: Tensor) -> _Table:
        shape = tuple(array.shape[1:].as_list())
        size = array.dtype.size * math.prod(shape)
        word = next((dtype for dtype in _WORDS if size and size % dtype.size == 0), None)
        if not array.dtype.is_integer or array.dtype == tf.int64 or word is None:
            return cls(array, array.dtype, shape)
        with tf.device(array.device):  # both look at the same memory
            parts = word.size // array.dtype.size
            split = [-1, size // word.size, *([parts] if parts > 1 else [])]
            return cls(tf.bitcast(tf.reshape(array, split), word), array.dtype, shape)

    @property
    def length(self) -> int:
        return int(self.words.shape[0])

    def rows(self, numbers: Tensor) -> Tensor:
        found = tf.gather(self.words, numbers)
        if self.words.dtype == self.dtype:
            return found
        picked = [-1 if size is None else size for size in numbers.shape]
        if picked.count(-1) > 1:  # batches of batches
            row = tf.constant(self.shape, tf.int32)
            return tf.reshape(tf.bitcast(found, self.dtype), tf.concat([tf.shape(numbers), row], 0))
        return tf.reshape(tf.bitcast(found, self.dtype), [*picked, *self.shape])


def _are_numbers(source: Any) -> bool:
    specs = tf.nest.flatten(source.element_spec)
    return all(isinstance(spec, tf.TensorSpec) and is_numeric_dtype(spec.dtype) for spec in specs)


def is_numeric_dtype(dtype: tf.DType) -> bool:
    """Neither words nor handles of anything."""
    return dtype not in (tf.string, tf.variant, tf.resource)
