"""New nodes that rewrites add, made without tracing a user's function again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import batch_op, cache_op, interleave_op, map_op, prefetch_op

from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import create_uninitialized, initialize_dataset
from uncork.pipeline.functions.function_graph import ConcreteFunction
from uncork.pipeline.ir.cache_files import CacheFiles
from uncork.pipeline.ir.node import CACHE_FILES_ATTRIBUTE, PLACEHOLDER_PATH
from uncork.pycode.frames.dataset_lines import source_line_fields


@dataclass(frozen=True, eq=False)
class MapFunction:
    """A traced function in the form in which tf.data's classes keep theirs.

    Attributes:
        function: Over flat tensors.
        output_structure: Type specs that its flat outputs pack into.
        origin: What it was made from; keeps registered Python functions and variables alive.
        variables: That the function may read or change; its graph knows handles only.
        second_origin: Another one that it was made from.
        _func: The user's Python function, for its name.
    """

    function: ConcreteFunction
    output_structure: Any
    origin: Any = None
    variables: tuple[Any, ...] = ()
    second_origin: Any = None
    _func: Any = None


def derive_map_function(
    origin: Any, function: ConcreteFunction, output_structure: Any = None
) -> MapFunction:
    """A function made from the one that a dataset holds, in its place."""
    return MapFunction(
        function,
        origin.output_structure if output_structure is None else output_structure,
        origin=origin,
        variables=variables_of(origin),
        _func=getattr(origin, "_func", None),
    )


def variables_of(wrapper: Any) -> tuple[Any, ...]:
    """Variables that a dataset's function captured."""
    if isinstance(wrapper, MapFunction):
        return wrapper.variables
    return tuple(wrapper.function.graph.variables)


def parallel_map(
    input_dataset: Dataset, function: Any, template: Dataset, num_parallel_calls: int = -1
) -> Dataset:
    """Map several elements at once, in order, with flags and line of another map, or of a source.

    That one may run inline; several calls at once have threads of their own.
    """
    dataset = create_uninitialized(
        map_op._ParallelMapDataset,
        _input_dataset=input_dataset,
        _map_func=function,
        _num_parallel_calls=tf.constant(num_parallel_calls, tf.int64),
        _deterministic="true",
        _use_inter_op_parallelism=True,
        _preserve_cardinality=getattr(template, "_preserve_cardinality", True),
        _use_unbounded_threadpool=False,
        _name=template._name,
        **source_line_fields(template),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def serial_map(input_dataset: Dataset, function: Any, template: Dataset) -> Dataset:
    """Map one element at a time, in the thread that asks; a parallel map with one call runs ahead.

    Flags and line are those of another map, or of a filter.
    """
    dataset = create_uninitialized(
        map_op._MapDataset,
        _input_dataset=input_dataset,
        _map_func=function,
        _use_inter_op_parallelism=True,
        _preserve_cardinality=getattr(template, "_preserve_cardinality", True),
        _name=template._name,
        **source_line_fields(template),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def inline_map(input_dataset: Dataset, function: Any, template: Dataset) -> Dataset:
    """Map one element at a time, its ops too in the thread that asks, and handed to no other.

    Flags and line are those of another map. TensorFlow's rewrites leave it as it is.
    """
    dataset = create_uninitialized(
        map_op._MapDataset,
        _input_dataset=input_dataset,
        _map_func=function,
        _use_inter_op_parallelism=False,
        _force_synchronous=True,
        _preserve_cardinality=template._preserve_cardinality,
        _name=template._name,
        **source_line_fields(template),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def parallel_interleave(input_dataset: Dataset, template: Dataset, cycle_length: int) -> Dataset:
    """What a serial interleave does, its open inputs read by threads of their own, in order."""
    dataset = create_uninitialized(
        interleave_op._ParallelInterleaveDataset,
        _input_dataset=input_dataset,
        _map_func=template._map_func,
        _structure=template._structure,
        _cycle_length=tf.constant(cycle_length, tf.int64),
        _block_length=template._block_length,
        _buffer_output_elements=tf.constant(tf.data.AUTOTUNE, tf.int64),
        _prefetch_input_elements=tf.constant(tf.data.AUTOTUNE, tf.int64),
        _num_parallel_calls=tf.constant(tf.data.AUTOTUNE, tf.int64),
        _name=template._name,
        _uncork_deterministic="true",
        **source_line_fields(template),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def serial_interleave(input_dataset: Dataset, template: Dataset) -> Dataset:
    """What a parallel interleave does, in the thread that asks."""
    dataset = create_uninitialized(
        interleave_op._InterleaveDataset,
        _input_dataset=input_dataset,
        _map_func=template._map_func,
        _structure=template._structure,
        _cycle_length=template._cycle_length,
        _block_length=template._block_length,
        _name=getattr(template, "_name", None),
        **source_line_fields(template),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def read_ahead_interleave(
    input_dataset: Dataset,
    template: Dataset,
    opening_dataset: Any,
    readers: int,
    block_length: int,
    buffer_elements: int,
) -> Dataset:
    """One input after the other, as many as there are readers read and held meanwhile.

    Args:
        input_dataset: The inputs.
        template: Whose line and name it has.
        opening_dataset: A dataset that opens one input after the other.
        readers: Threads, each with an input of its own.
        block_length: A number of elements that no input has.
        buffer_elements: Elements that each reader holds.
    """
    dataset = create_uninitialized(
        interleave_op._ParallelInterleaveDataset,
        _input_dataset=input_dataset,
        _map_func=opening_dataset._map_func,
        _structure=opening_dataset.element_spec,
        _cycle_length=tf.constant(readers, tf.int64),
        _block_length=tf.constant(block_length, tf.int64),
        _buffer_output_elements=tf.constant(buffer_elements, tf.int64),
        _prefetch_input_elements=tf.constant(0, tf.int64),
        _num_parallel_calls=tf.constant(readers, tf.int64),
        _name=getattr(template, "_name", None),
        _uncork_deterministic="true",
        **source_line_fields(template),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def memory_cache(input_dataset: Dataset) -> Dataset:
    """Keep elements in memory; shared by all iterators over the result, gone with it."""
    dataset = create_uninitialized(
        cache_op.CacheDataset,
        _input_dataset=input_dataset,
        _filename=tf.constant("", tf.string),
        _name=None,
        **source_line_fields(input_dataset),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def file_cache(input_dataset: Dataset, cache_files: CacheFiles | None) -> Dataset:
    """Keep elements in files, which go with the last dataset that reads them.

    Args:
        input_dataset: What is kept.
        cache_files: None for a place-holder, which must be taken out before anything is read.
    """
    dataset = create_uninitialized(
        cache_op.CacheDataset,
        _input_dataset=input_dataset,
        _filename=tf.constant(
            PLACEHOLDER_PATH if cache_files is None else cache_files.file_prefix, tf.string
        ),
        _name=None,
        **{CACHE_FILES_ATTRIBUTE: cache_files},
        **source_line_fields(input_dataset),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def add_rewrite_barrier(input_dataset: Dataset) -> Dataset:
    """Empty options: changes nothing, and no rewrite of the runtime looks through it."""
    return input_dataset.with_options(tf.data.Options())


def unpadded_batch(input_dataset: Dataset, padded_batch: Dataset, structure: Any) -> Dataset:
    """So many elements of one shape as a padded batch takes; nothing of them need be filled up."""
    dataset = create_uninitialized(
        batch_op._BatchDataset,
        _input_dataset=input_dataset,
        _batch_size=padded_batch._batch_size,
        _drop_remainder=padded_batch._drop_remainder,
        _structure=structure,
        _name=padded_batch._name,
        **source_line_fields(padded_batch),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def autotuned_prefetch(input_dataset: Dataset) -> Dataset:
    """Prepare elements ahead; how many is the runtime's choice."""
    dataset = create_uninitialized(
        prefetch_op._PrefetchDataset,
        _input_dataset=input_dataset,
        _buffer_size=tf.constant(tf.data.AUTOTUNE, tf.int64),
        _name=None,
        **source_line_fields(input_dataset),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))
