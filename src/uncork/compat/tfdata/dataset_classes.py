"""The classes of datasets that Uncork knows, each with the raw op that its constructor calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorflow.python.data.ops import dataset_ops

from uncork.compat.tfdata import dataset_ops as ops
from uncork.compat.tfdata.dataset_ops import Dataset, Variant

__all__ = [
    "DATASET_KINDS",
    "OPAQUE_KIND",
    "PASS_COUNTING_SOURCES",
    "Dataset",
    "DatasetKind",
    "input_datasets",
    "kind_of",
    "unwrap_v1_adapter",
]


@dataclass(frozen=True)
class DatasetKind:
    """What Uncork knows about one class of datasets.

    Attributes:
        name: The ``tf.data`` method that makes it, in snake case.
        create_variant: Makes the variant tensor anew from the object's fields and its inputs; None
            where that is not known, so the node is kept as it is.
        parameter_fields: Fields that decide what it does; part of the digest. No seeds, no paths.
        function_fields: Fields that hold a traced function.
    """

    name: str
    create_variant: Callable[[Dataset, Sequence[Variant]], Variant] | None = None
    parameter_fields: tuple[str, ...] = ()
    function_fields: tuple[str, ...] = ()


_SIZES = ("_batch_size", "_drop_remainder")
_CYCLE = ("_cycle_length", "_block_length")
_F = ("_map_func",)
_PARSED = (
    "_sparse_keys", "_sparse_types", "_ragged_keys", "_ragged_value_types", "_ragged_split_types",
    "_dense_keys", "_dense_defaults", "_dense_types",
)  # fmt: skip

# By class name: the classes are private and their modules move, their names have not since 2.12.
DATASET_KINDS: dict[str, DatasetKind] = {
    "_TensorSliceDataset": DatasetKind("from_tensor_slices"),
    "_TensorDataset": DatasetKind("from_tensors"),
    "_ListDataset": DatasetKind("from_list"),
    "_RangeDataset": DatasetKind("range", parameter_fields=("_start", "_stop", "_step")),
    "_RandomDataset": DatasetKind("random", ops.random_dataset, ("_rerandomize",)),
    "RandomDatasetV2": DatasetKind("random", ops.random_dataset, ("_rerandomize",)),
    "_LoadDataset": DatasetKind("load"),
    "CsvDatasetV2": DatasetKind("csv"),
    "SqlDatasetV2": DatasetKind("sql"),
    "TFRecordDatasetV2": DatasetKind("tfrecord", ops.wrapped_variant),
    "TextLineDatasetV2": DatasetKind("text_line", ops.wrapped_variant),
    "FixedLengthRecordDatasetV2": DatasetKind("fixed_length_record", ops.wrapped_variant),
    "_MapDataset": DatasetKind("map", ops.map_dataset, ("_preserve_cardinality",), _F),
    "_ParallelMapDataset": DatasetKind(
        "map", ops.parallel_map_dataset, ("_preserve_cardinality", "_deterministic"), _F
    ),
    "_BatchDataset": DatasetKind("batch", ops.batch_dataset, _SIZES),
    "_ParallelBatchDataset": DatasetKind(
        "batch", ops.parallel_batch_dataset, (*_SIZES, "_deterministic")
    ),
    "_PaddedBatchDataset": DatasetKind(
        "padded_batch", ops.padded_batch_dataset, (*_SIZES, "_padded_shapes", "_padding_values")
    ),
    "_ShuffleDataset": DatasetKind(
        "shuffle", ops.shuffle_dataset, ("_buffer_size", "_reshuffle_each_iteration")
    ),
    "_RepeatDataset": DatasetKind("repeat", ops.repeat_dataset, ("_count",)),
    "_TakeDataset": DatasetKind("take", ops.take_dataset, ("_count",)),
    "_SkipDataset": DatasetKind("skip", ops.skip_dataset, ("_count",)),
    "_ShardDataset": DatasetKind("shard", ops.shard_dataset, ("_num_shards", "_index")),
    "_FilterDataset": DatasetKind("filter", ops.filter_dataset, (), ("_predicate",)),
    "_TakeWhileDataset": DatasetKind("take_while", ops.take_while_dataset, (), ("_predicate",)),
    "_FlatMapDataset": DatasetKind("flat_map", ops.flat_map_dataset, (), _F),
    "_InterleaveDataset": DatasetKind("interleave", ops.interleave_dataset, _CYCLE, _F),
    "_ParallelInterleaveDataset": DatasetKind(
        "interleave", ops.parallel_interleave_dataset, _CYCLE, _F
    ),
    "ParallelInterleaveDataset": DatasetKind(
        "interleave", ops.legacy_interleave_dataset, (*_CYCLE, "_deterministic"), _F
    ),
    "CacheDataset": DatasetKind("cache", ops.cache_dataset),
    "_PrefetchDataset": DatasetKind("prefetch", ops.prefetch_dataset, ("_buffer_size",)),
    "_OptionsDataset": DatasetKind("options", ops.options_dataset),
    "_AssertCardinalityDataset": DatasetKind(
        "assert_cardinality", ops.assert_cardinality_dataset, ("_expected_cardinality",)
    ),
    "_UnbatchDataset": DatasetKind("unbatch", ops.unbatch_dataset),
    "_UniqueDataset": DatasetKind("unique", ops.unique_dataset),
    "_WindowDataset": DatasetKind(
        "window", ops.window_dataset, ("_size", "_shift", "_stride", "_drop_remainder")
    ),
    "_SnapshotDataset": DatasetKind(
        "snapshot", ops.snapshot_dataset, (), ("_reader_func", "_shard_func")
    ),
    "_RestructuredDataset": DatasetKind("restructure", ops.same_variant),
    "_ScanDataset": DatasetKind("scan", ops.scan_dataset, (), ("_scan_func",)),
    "_GroupByWindowDataset": DatasetKind(
        "group_by_window",
        ops.group_by_window_dataset,
        function_fields=("_key_func", "_reduce_func", "_window_size_func"),
    ),
    "_RebatchDataset": DatasetKind(
        "rebatch", ops.rebatch_dataset, ("_batch_sizes", "_drop_remainder")
    ),
    "_DenseToRaggedDataset": DatasetKind("to_ragged", ops.dense_to_ragged_dataset),
    "_DenseToSparseBatchDataset": DatasetKind(
        "sparse_batch", ops.dense_to_sparse_batch_dataset, ("_batch_size", "_row_shape")
    ),
    # Behind parse_example_dataset, and make_batched_features_dataset.
    "_ParseExampleDataset": DatasetKind(
        "parse_example", ops.parse_example_dataset, ("_deterministic", *_PARSED)
    ),
    # Behind prefetch_to_device.
    "_CopyToDeviceDataset": DatasetKind(
        "copy_to_device", ops.copy_to_device_dataset, ("_target_device", "_source_device_string")
    ),
    "_IgnoreErrorsDataset": DatasetKind("ignore_errors", ops.ignore_errors_dataset),
    "_ZipDataset": DatasetKind("zip", ops.zip_dataset),
    # Behind sample_from_datasets, choose_from_datasets and rejection_resample.
    "_DirectedInterleaveDataset": DatasetKind(
        "choose", ops.directed_interleave_dataset, ("_stop_on_empty_dataset",)
    ),
    "_ConcatenateDataset": DatasetKind("concatenate", ops.concatenate_dataset),
    # Made by `save`; listed so that trials know that it writes. It cannot be rebuilt.
    "_SaveDataset": DatasetKind("save"),
}  # fmt: skip

OPAQUE_KIND = DatasetKind("opaque")

# Sources that count the passes over them, as a shuffle does: a copy begins with the first.
PASS_COUNTING_SOURCES = frozenset({"random"})


def kind_of(dataset: Dataset) -> DatasetKind:
    """What is known about this dataset's class; :data:`OPAQUE_KIND` when nothing is.

    A user's own class that happens to share a name is not TensorFlow's, so the module must match.
    """
    cls = type(dataset)
    if not cls.__module__.startswith("tensorflow."):
        return OPAQUE_KIND
    return DATASET_KINDS.get(cls.__name__, OPAQUE_KIND)


def input_datasets(dataset: Dataset) -> list[Dataset]:
    """Direct inputs, V1 wrappers taken off; record readers keep theirs in a hidden inner node."""
    inner = getattr(dataset, "_impl", None)
    return [unwrap_v1_adapter(i) for i in (dataset if inner is None else inner)._inputs()]


def unwrap_v1_adapter(dataset: Dataset) -> Dataset:
    """The dataset inside TensorFlow 1's adapter, or itself."""
    while isinstance(dataset, dataset_ops.DatasetV1Adapter):
        dataset = dataset._dataset
    return dataset
