"""How the raw op of each class of datasets is called again, from the fields of an object.

Each function is named after its op. It takes an object, whose fields are set, and its inputs'
variant tensors, and returns the variant tensor that the class's constructor would have made.

Borrowed: the fields of each class, and the attributes that all of its ops have.
Why: the ops are public, in ``tf.raw_ops``; what a dataset calls its op with is not.
Works with: TensorFlow 2.18.1 and 2.21.0; a test, which rebuilds each class, was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported, or when a
    dataset of the class is rebuilt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from uncork.compat.borrow import borrow
from uncork.compat.tfdata.hidden_settings import has_log_warning, interleave_determinism
from uncork.compat.tfdata.nested import flatten, get_flat_tensor_shapes, to_tensor_list
from uncork.core.base.errors import EditRefused

borrow("tensorflow.python.data.ops.dataset_ops", "DatasetV2._common_args")
borrow("tensorflow.python.data.ops.dataset_ops", "DatasetV2._metadata")

Dataset = Any  # tf.data.Dataset: TensorFlow ships no types
Variant = Any


def _captured(dataset: Dataset, field: str) -> Any:
    return getattr(dataset, field).function.captured_inputs


def _present(dataset: Dataset, **fields: str) -> dict[str, Any]:
    """Op attributes that only some TensorFlow versions have, taken where the object has them."""
    return {
        name: getattr(dataset, field) for name, field in fields.items() if hasattr(dataset, field)
    }


def map_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.MapDataset(
        input_dataset=v[0],
        other_arguments=_captured(d, "_map_func"),
        f=d._map_func.function,
        use_inter_op_parallelism=d._use_inter_op_parallelism,
        preserve_cardinality=d._preserve_cardinality,
        **_present(d, force_synchronous="_force_synchronous"),
        **d._common_args,
    )


def parallel_map_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.ParallelMapDatasetV2(
        input_dataset=v[0],
        other_arguments=_captured(d, "_map_func"),
        f=d._map_func.function,
        num_parallel_calls=d._num_parallel_calls,
        deterministic=d._deterministic,
        use_inter_op_parallelism=d._use_inter_op_parallelism,
        preserve_cardinality=d._preserve_cardinality,
        **_present(d, use_unbounded_threadpool="_use_unbounded_threadpool"),
        **d._common_args,
    )


def batch_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.BatchDatasetV2(
        input_dataset=v[0],
        batch_size=d._batch_size,
        drop_remainder=d._drop_remainder,
        **d._common_args,
    )


def parallel_batch_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.ParallelBatchDataset(
        input_dataset=v[0],
        batch_size=d._batch_size,
        num_parallel_calls=d._num_parallel_calls,
        drop_remainder=d._drop_remainder,
        deterministic=d._deterministic,
        **d._common_args,
    )


def padded_batch_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.PaddedBatchDatasetV2(
        input_dataset=v[0],
        batch_size=d._batch_size,
        padded_shapes=[tf.convert_to_tensor(s, tf.int64) for s in flatten(d._padded_shapes)],
        padding_values=flatten(d._padding_values),
        drop_remainder=d._drop_remainder,
        output_shapes=get_flat_tensor_shapes(d.element_spec),
        metadata=d._metadata.SerializeToString(),
    )


def shuffle_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.ShuffleDatasetV3(
        input_dataset=v[0],
        buffer_size=d._buffer_size,
        seed=d._seed,
        seed2=d._seed2,
        seed_generator=d.__dict__.get("_seed_generator", tf.raw_ops.DummySeedGenerator()),
        reshuffle_each_iteration=is_reshuffling(d),
        **d._common_args,
    )


def is_reshuffling(d: Dataset) -> bool:
    """A shuffle that puts its elements in another order in each pass."""
    # None means the default, as in Dataset.shuffle.
    return d._reshuffle_each_iteration is None or bool(d._reshuffle_each_iteration)


def repeat_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.RepeatDataset(input_dataset=v[0], count=d._count, **d._common_args)


def take_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.TakeDataset(input_dataset=v[0], count=d._count, **d._common_args)


def skip_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.SkipDataset(input_dataset=v[0], count=d._count, **d._common_args)


def shard_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.ShardDataset(
        input_dataset=v[0], num_shards=d._num_shards, index=d._index, **d._common_args
    )


def filter_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.FilterDataset(
        input_dataset=v[0],
        other_arguments=_captured(d, "_predicate"),
        predicate=d._predicate.function,
        **d._common_args,
    )


def take_while_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.TakeWhileDataset(
        input_dataset=v[0],
        other_arguments=_captured(d, "_predicate"),
        predicate=d._predicate.function,
        **d._common_args,
    )


def flat_map_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.FlatMapDataset(
        input_dataset=v[0],
        other_arguments=_captured(d, "_map_func"),
        f=d._map_func.function,
        **d._common_args,
    )


def interleave_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.InterleaveDataset(
        input_dataset=v[0],
        other_arguments=_captured(d, "_map_func"),
        cycle_length=d._cycle_length,
        block_length=d._block_length,
        f=d._map_func.function,
        **d._common_args,
    )


def parallel_interleave_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.ParallelInterleaveDatasetV4(
        input_dataset=v[0],
        other_arguments=_captured(d, "_map_func"),
        cycle_length=d._cycle_length,
        block_length=d._block_length,
        buffer_output_elements=d._buffer_output_elements,
        prefetch_input_elements=d._prefetch_input_elements,
        num_parallel_calls=d._num_parallel_calls,
        f=d._map_func.function,
        deterministic=interleave_determinism(d),
        **d._common_args,
    )


def legacy_interleave_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.LegacyParallelInterleaveDatasetV2(
        input_dataset=v[0],
        other_arguments=_captured(d, "_map_func"),
        cycle_length=d._cycle_length,
        block_length=d._block_length,
        buffer_output_elements=d._buffer_output_elements,
        prefetch_input_elements=d._prefetch_input_elements,
        f=d._map_func.function,
        deterministic=d._deterministic,
        **d._common_args,
    )


def cache_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.CacheDatasetV2(
        input_dataset=v[0],
        filename=d._filename,
        cache=tf.raw_ops.DummyMemoryCache(),
        **d._common_args,
    )


def prefetch_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.PrefetchDataset(
        input_dataset=v[0],
        buffer_size=d._buffer_size,
        legacy_autotune=bool(d._buffer_size == tf.data.AUTOTUNE),
        **d._common_args,
    )


def options_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.OptionsDataset(
        input_dataset=v[0],
        serialized_options=d._options_attr._to_proto().SerializeToString(),
        **d._common_args,
    )


def assert_cardinality_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.AssertCardinalityDataset(
        input_dataset=v[0], cardinality=d._expected_cardinality, **d._flat_structure
    )


def unbatch_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.UnbatchDataset(input_dataset=v[0], **d._common_args)


def unique_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.UniqueDataset(input_dataset=v[0], **d._common_args)


def window_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.WindowDataset(
        input_dataset=v[0],
        size=d._size,
        shift=d._shift,
        stride=d._stride,
        drop_remainder=d._drop_remainder,
        **d._common_args,
    )


def snapshot_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.SnapshotDatasetV2(
        input_dataset=v[0],
        path=d._path,
        reader_func_other_args=_captured(d, "_reader_func"),
        shard_func_other_args=_captured(d, "_shard_func"),
        compression=d._compression,
        reader_func=d._reader_func.function,
        shard_func=d._shard_func.function,
        **d._common_args,
    )


def random_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    if not d._rerandomize:
        return tf.raw_ops.RandomDataset(seed=d._seed, seed2=d._seed2, **d._common_args)
    return tf.raw_ops.RandomDatasetV2(
        seed=d._seed,
        seed2=d._seed2,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        rerandomize_each_iteration=d._rerandomize,
        **d._common_args,
    )


def zip_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.ZipDataset(input_datasets=list(v), **d._common_args)


def concatenate_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.ConcatenateDataset(input_dataset=v[0], another_dataset=v[1], **d._common_args)


def scan_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.ScanDataset(
        input_dataset=v[0],
        initial_state=to_tensor_list(d._state_structure, d._initial_state),
        other_arguments=_captured(d, "_scan_func"),
        f=d._scan_func.function,
        preserve_cardinality=True,
        **d._common_args,
    )


def group_by_window_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.GroupByWindowDataset(
        input_dataset=v[0],
        key_func_other_arguments=_captured(d, "_key_func"),
        reduce_func_other_arguments=_captured(d, "_reduce_func"),
        window_size_func_other_arguments=_captured(d, "_window_size_func"),
        key_func=d._key_func.function,
        reduce_func=d._reduce_func.function,
        window_size_func=d._window_size_func.function,
        **d._common_args,
    )


def rebatch_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    if not all(isinstance(spec, tf.TensorSpec) for spec in tf.nest.flatten(d.element_spec)):
        # Its constructor encodes them by a map of its own.
        raise EditRefused(
            "the pipeline rebatches ragged or sparse batches", "dense batches", "keep it unchanged"
        )
    return tf.raw_ops.RebatchDatasetV2(
        input_dataset=v[0],
        batch_sizes=d._batch_sizes,
        drop_remainder=d._drop_remainder,
        **d._flat_structure,
    )


def ignore_errors_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.IgnoreErrorsDataset(
        input_dataset=v[0], log_warning=has_log_warning(d), **d._flat_structure
    )


def directed_interleave_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.DirectedInterleaveDataset(
        selector_input_dataset=v[0],
        data_input_datasets=list(v[1:]),
        stop_on_empty_dataset=d._stop_on_empty_dataset,
        **d._flat_structure,
    )


def dense_to_ragged_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return d._mapped_dataset._variant_tensor


def same_variant(d: Dataset, v: Sequence[Variant]) -> Variant:
    return v[0]


def wrapped_variant(d: Dataset, v: Sequence[Variant]) -> Variant:
    return d._impl._variant_tensor


def dense_to_sparse_batch_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.DenseToSparseBatchDataset(
        input_dataset=v[0],
        batch_size=d._batch_size,
        row_shape=[-1 if n is None else n for n in tf.TensorShape(d._row_shape).as_list()],
        **d._flat_structure,
    )


def parse_example_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    return tf.raw_ops.ParseExampleDatasetV2(
        input_dataset=v[0],
        num_parallel_calls=d._num_parallel_calls,
        dense_defaults=d._dense_defaults,
        sparse_keys=d._sparse_keys,
        dense_keys=d._dense_keys,
        sparse_types=d._sparse_types,
        dense_shapes=d._dense_shapes,
        deterministic=d._deterministic,
        ragged_keys=d._ragged_keys,
        ragged_value_types=d._ragged_value_types,
        ragged_split_types=d._ragged_split_types,
        **d._flat_structure,
    )


def copy_to_device_dataset(d: Dataset, v: Sequence[Variant]) -> Variant:
    """Its functions read an iterator of what lies below; none of them is the user's."""
    del v
    made = type(d)(d._input_dataset, d._target_device, d._source_device_string)
    d.__dict__.update(_uncork_made=made)  # the functions go with the object that holds them
    return made._variant_tensor
