"""New nodes that rewrites add, made without tracing a user's function again."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import (
    BatchDataset,
    CacheDataset,
    InterleaveDataset,
    MapDataset,
    ParallelInterleaveDataset,
    ParallelMapDataset,
    PrefetchDataset,
    kind_of,
)
from uncork.compat.tfdata.dataset_fields import parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import create_uninitialized, initialize_dataset
from uncork.pipeline.ir.cache_files import CacheFiles
from uncork.pipeline.ir.node import CACHE_FILES_ATTRIBUTE, PLACEHOLDER_PATH
from uncork.pycode.frames.dataset_lines import source_line_fields


def parallel_map(
    input_dataset: Dataset, function: Any, template: Dataset, num_parallel_calls: int = -1
) -> Dataset:
    """Map several elements at once, in order, with flags and line of another map, or of a source.

    That one may run inline; several calls at once have threads of their own.
    """
    dataset = create_uninitialized(
        ParallelMapDataset,
        input_dataset=input_dataset,
        map_func=function,
        num_parallel_calls=tf.constant(num_parallel_calls, tf.int64),
        deterministic="true",
        use_inter_op_parallelism=True,
        preserve_cardinality=parameter(template, "preserve_cardinality", True),
        use_unbounded_threadpool=False,
        name=parameter(template, "name"),
        **source_line_fields(template),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def serial_map(input_dataset: Dataset, function: Any, template: Dataset) -> Dataset:
    """Map one element at a time, in the thread that asks; a parallel map with one call runs ahead.

    Flags and line are those of another map, or of a filter.
    """
    dataset = create_uninitialized(
        MapDataset,
        input_dataset=input_dataset,
        map_func=function,
        use_inter_op_parallelism=True,
        preserve_cardinality=parameter(template, "preserve_cardinality", True),
        name=parameter(template, "name"),
        **source_line_fields(template),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def inline_map(input_dataset: Dataset, function: Any, template: Dataset) -> Dataset:
    """Map one element at a time, its ops too in the thread that asks, and handed to no other.

    Flags and line are those of another map. TensorFlow's rewrites leave it as it is.
    """
    dataset = create_uninitialized(
        MapDataset,
        input_dataset=input_dataset,
        map_func=function,
        use_inter_op_parallelism=False,
        force_synchronous=True,
        preserve_cardinality=parameter(template, "preserve_cardinality"),
        name=parameter(template, "name"),
        **source_line_fields(template),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def parallel_interleave(input_dataset: Dataset, template: Dataset, cycle_length: int) -> Dataset:
    """What a serial interleave does, its open inputs read by threads of their own, in order."""
    dataset = create_uninitialized(
        ParallelInterleaveDataset,
        input_dataset=input_dataset,
        map_func=parameter(template, "map_func"),
        structure=parameter(template, "structure"),
        cycle_length=tf.constant(cycle_length, tf.int64),
        block_length=parameter(template, "block_length"),
        buffer_output_elements=tf.constant(tf.data.AUTOTUNE, tf.int64),
        prefetch_input_elements=tf.constant(tf.data.AUTOTUNE, tf.int64),
        num_parallel_calls=tf.constant(tf.data.AUTOTUNE, tf.int64),
        name=parameter(template, "name"),
        _uncork_deterministic="true",
        **source_line_fields(template),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def serial_interleave(input_dataset: Dataset, template: Dataset) -> Dataset:
    """What a parallel interleave does, in the thread that asks."""
    dataset = create_uninitialized(
        InterleaveDataset,
        input_dataset=input_dataset,
        map_func=parameter(template, "map_func"),
        structure=parameter(template, "structure"),
        cycle_length=parameter(template, "cycle_length"),
        block_length=parameter(template, "block_length"),
        name=parameter(template, "name", None),
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
        ParallelInterleaveDataset,
        input_dataset=input_dataset,
        map_func=parameter(opening_dataset, "map_func"),
        structure=opening_dataset.element_spec,
        cycle_length=tf.constant(readers, tf.int64),
        block_length=tf.constant(block_length, tf.int64),
        buffer_output_elements=tf.constant(buffer_elements, tf.int64),
        prefetch_input_elements=tf.constant(0, tf.int64),
        num_parallel_calls=tf.constant(readers, tf.int64),
        name=parameter(template, "name", None),
        _uncork_deterministic="true",
        **source_line_fields(template),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def memory_cache(input_dataset: Dataset) -> Dataset:
    """Keep elements in memory; shared by all iterators over the result, gone with it."""
    dataset = create_uninitialized(
        CacheDataset,
        input_dataset=input_dataset,
        filename=tf.constant("", tf.string),
        name=None,
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
        CacheDataset,
        input_dataset=input_dataset,
        filename=tf.constant(
            PLACEHOLDER_PATH if cache_files is None else cache_files.file_prefix, tf.string
        ),
        name=None,
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
        BatchDataset,
        input_dataset=input_dataset,
        batch_size=parameter(padded_batch, "batch_size"),
        drop_remainder=parameter(padded_batch, "drop_remainder"),
        structure=structure,
        name=parameter(padded_batch, "name"),
        **source_line_fields(padded_batch),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))


def autotuned_prefetch(input_dataset: Dataset) -> Dataset:
    """Prepare elements ahead; how many is the runtime's choice."""
    dataset = create_uninitialized(
        PrefetchDataset,
        input_dataset=input_dataset,
        buffer_size=tf.constant(tf.data.AUTOTUNE, tf.int64),
        name=None,
        **source_line_fields(input_dataset),
    )
    return initialize_dataset(dataset, [input_dataset], kind_of(dataset))
