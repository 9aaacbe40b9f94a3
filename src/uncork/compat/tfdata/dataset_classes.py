"""The classes of datasets that Uncork knows, each with the raw op that its constructor calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorflow.python.data.ops import dataset_ops

from uncork.compat.tfdata import dataset_ops as ops
from uncork.compat.tfdata.dataset_ops import Dataset, Variant

__all__ = [
    "COUNTING_SOURCES",
    "KINDS",
    "OPAQUE",
    "Dataset",
    "Kind",
    "inputs_of",
    "kind_of",
    "unwrapped",
]


@dataclass(frozen=True)
class Kind:
    """What Uncork knows about one class of datasets.

    Attributes:
        name: The ``tf.data`` method that makes it, in snake case.
        op: Makes the variant tensor anew from the object's fields and its inputs; None where that
            is not known, so the node is kept as it is.
        parameters: Fields that decide what it does; part of the digest. No seeds, no paths.
        functions: Fields that hold a traced function.
    """

    name: str
    op: Callable[[Dataset, Sequence[Variant]], Variant] | None = None
    parameters: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()


_SIZES = ("_batch_size", "_drop_remainder")
_CYCLE = ("_cycle_length", "_block_length")
_F = ("_map_func",)
_PARSED = (
    "_sparse_keys", "_sparse_types", "_ragged_keys", "_ragged_value_types", "_ragged_split_types",
    "_dense_keys", "_dense_defaults", "_dense_types",
)  # fmt: skip

# By class name: the classes are private and their modules move, their names have not since 2.12.
KINDS: dict[str, Kind] = {
    "_TensorSliceDataset": Kind("from_tensor_slices"),
    "_TensorDataset": Kind("from_tensors"),
    "_ListDataset": Kind("from_list"),
    "_RangeDataset": Kind("range", parameters=("_start", "_stop", "_step")),
    "_RandomDataset": Kind("random", ops.random_dataset, ("_rerandomize",)),
    "RandomDatasetV2": Kind("random", ops.random_dataset, ("_rerandomize",)),
    "_LoadDataset": Kind("load"),
    "CsvDatasetV2": Kind("csv"),
    "SqlDatasetV2": Kind("sql"),
    "TFRecordDatasetV2": Kind("tfrecord", ops.wrapped_variant),
    "TextLineDatasetV2": Kind("text_line", ops.wrapped_variant),
    "FixedLengthRecordDatasetV2": Kind("fixed_length_record", ops.wrapped_variant),
    "_MapDataset": Kind("map", ops.map_dataset, ("_preserve_cardinality",), _F),
    "_ParallelMapDataset": Kind(
        "map", ops.parallel_map_dataset, ("_preserve_cardinality", "_deterministic"), _F
    ),
    "_BatchDataset": Kind("batch", ops.batch_dataset, _SIZES),
    "_ParallelBatchDataset": Kind("batch", ops.parallel_batch_dataset, (*_SIZES, "_deterministic")),
    "_PaddedBatchDataset": Kind(
        "padded_batch", ops.padded_batch_dataset, (*_SIZES, "_padded_shapes", "_padding_values")
    ),
    "_ShuffleDataset": Kind(
        "shuffle", ops.shuffle_dataset, ("_buffer_size", "_reshuffle_each_iteration")
    ),
    "_RepeatDataset": Kind("repeat", ops.repeat_dataset, ("_count",)),
    "_TakeDataset": Kind("take", ops.take_dataset, ("_count",)),
    "_SkipDataset": Kind("skip", ops.skip_dataset, ("_count",)),
    "_ShardDataset": Kind("shard", ops.shard_dataset, ("_num_shards", "_index")),
    "_FilterDataset": Kind("filter", ops.filter_dataset, (), ("_predicate",)),
    "_TakeWhileDataset": Kind("take_while", ops.take_while_dataset, (), ("_predicate",)),
    "_FlatMapDataset": Kind("flat_map", ops.flat_map_dataset, (), _F),
    "_InterleaveDataset": Kind("interleave", ops.interleave_dataset, _CYCLE, _F),
    "_ParallelInterleaveDataset": Kind("interleave", ops.parallel_interleave_dataset, _CYCLE, _F),
    "ParallelInterleaveDataset": Kind(
        "interleave", ops.legacy_interleave_dataset, (*_CYCLE, "_deterministic"), _F
    ),
    "CacheDataset": Kind("cache", ops.cache_dataset),
    "_PrefetchDataset": Kind("prefetch", ops.prefetch_dataset, ("_buffer_size",)),
    "_OptionsDataset": Kind("options", ops.options_dataset),
    "_AssertCardinalityDataset": Kind(
        "assert_cardinality", ops.assert_cardinality_dataset, ("_expected_cardinality",)
    ),
    "_UnbatchDataset": Kind("unbatch", ops.unbatch_dataset),
    "_UniqueDataset": Kind("unique", ops.unique_dataset),
    "_WindowDataset": Kind(
        "window", ops.window_dataset, ("_size", "_shift", "_stride", "_drop_remainder")
    ),
    "_SnapshotDataset": Kind("snapshot", ops.snapshot_dataset, (), ("_reader_func", "_shard_func")),
    "_RestructuredDataset": Kind("restructure", ops.same_variant),
    "_ScanDataset": Kind("scan", ops.scan_dataset, (), ("_scan_func",)),
    "_GroupByWindowDataset": Kind(
        "group_by_window",
        ops.group_by_window_dataset,
        functions=("_key_func", "_reduce_func", "_window_size_func"),
    ),
    "_RebatchDataset": Kind("rebatch", ops.rebatch_dataset, ("_batch_sizes", "_drop_remainder")),
    "_DenseToRaggedDataset": Kind("to_ragged", ops.dense_to_ragged_dataset),
    "_DenseToSparseBatchDataset": Kind(
        "sparse_batch", ops.dense_to_sparse_batch_dataset, ("_batch_size", "_row_shape")
    ),
    # Behind parse_example_dataset, and make_batched_features_dataset.
    "_ParseExampleDataset": Kind(
        "parse_example", ops.parse_example_dataset, ("_deterministic", *_PARSED)
    ),
    # Behind prefetch_to_device.
    "_CopyToDeviceDataset": Kind(
        "copy_to_device", ops.copy_to_device_dataset, ("_target_device", "_source_device_string")
    ),
    "_IgnoreErrorsDataset": Kind("ignore_errors", ops.ignore_errors_dataset),
    "_ZipDataset": Kind("zip", ops.zip_dataset),
    # Behind sample_from_datasets, choose_from_datasets and rejection_resample.
    "_DirectedInterleaveDataset": Kind(
        "choose", ops.directed_interleave_dataset, ("_stop_on_empty_dataset",)
    ),
    "_ConcatenateDataset": Kind("concatenate", ops.concatenate_dataset),
    # Made by `save`; listed so that trials know that it writes. It cannot be rebuilt.
    "_SaveDataset": Kind("save"),
}  # fmt: skip

OPAQUE = Kind("opaque")

# Sources that count the passes over them, as a shuffle does: a copy begins with the first.
COUNTING_SOURCES = frozenset({"random"})


def kind_of(dataset: Dataset) -> Kind:
    """What is known about this dataset's class; :data:`OPAQUE` when nothing is.

    A user's own class that happens to share a name is not TensorFlow's, so the module must match.
    """
    cls = type(dataset)
    if not cls.__module__.startswith("tensorflow."):
        return OPAQUE
    return KINDS.get(cls.__name__, OPAQUE)


def inputs_of(dataset: Dataset) -> list[Dataset]:
    """Direct inputs, V1 wrappers taken off; record readers keep theirs in a hidden inner node."""
    inner = getattr(dataset, "_impl", None)
    return [unwrapped(i) for i in (dataset if inner is None else inner)._inputs()]


def unwrapped(dataset: Dataset) -> Dataset:
    """The dataset inside TensorFlow 1's adapter, or itself."""
    while isinstance(dataset, dataset_ops.DatasetV1Adapter):
        dataset = dataset._dataset
    return dataset
