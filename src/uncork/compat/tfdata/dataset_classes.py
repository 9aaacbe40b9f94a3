"""The classes of datasets that Uncork knows, each with the raw op that its constructor calls.

Borrowed: the classes of ``tensorflow.python.data.ops``, their names and those of their fields.
Why: a public ``tf.data.Dataset`` does not tell what it does, what it reads from, nor with what.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported; a class that is
    missing in the table is left as it is, like a class that nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from uncork.compat.borrow import borrow
from uncork.compat.tfdata import dataset_ops as ops
from uncork.compat.tfdata.dataset_ops import Dataset, Variant

_OPS: Final = "tensorflow.python.data.ops"

# Classes that Uncork creates objects of, or tells from others of their kind.
BatchDataset: Final[Any] = borrow(f"{_OPS}.batch_op", "_BatchDataset")
CacheDataset: Final[Any] = borrow(f"{_OPS}.cache_op", "CacheDataset")
InterleaveDataset: Final[Any] = borrow(f"{_OPS}.interleave_op", "_InterleaveDataset")
ParallelInterleaveDataset: Final[Any] = borrow(
    f"{_OPS}.interleave_op", "_ParallelInterleaveDataset"
)
MapDataset: Final[Any] = borrow(f"{_OPS}.map_op", "_MapDataset")
ParallelMapDataset: Final[Any] = borrow(f"{_OPS}.map_op", "_ParallelMapDataset")
PrefetchDataset: Final[Any] = borrow(f"{_OPS}.prefetch_op", "_PrefetchDataset")
RandomDataset: Final[Any] = borrow(f"{_OPS}.random_op", "_RandomDataset")
# What holds nothing but a variant tensor, and the spec of its elements.
VariantDataset: Final[Any] = borrow(f"{_OPS}.dataset_ops", "_VariantDataset")
# ``from_tensors``, ``map`` and others of TensorFlow 1 return this wrapper of another dataset.
_V1Adapter: Final[Any] = borrow(f"{_OPS}.dataset_ops", "DatasetV1Adapter")
borrow(f"{_OPS}.dataset_ops", "DatasetV2._inputs")


@dataclass(frozen=True)
class DatasetKind:
    """What Uncork knows about one class of datasets.

    Attributes:
        name: The ``tf.data`` method that makes it, in snake case.
        create_variant: Makes the variant tensor anew from the object's fields and its inputs; None
            where that is not known, so the node is kept as it is.
        parameters: Names of those that decide what it does; part of the digest. No seeds, no paths.
        functions: Names of the parameters that are traced functions.
    """

    name: str
    create_variant: Callable[[Dataset, Sequence[Variant]], Variant] | None = None
    parameters: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()


_SIZES = ("batch_size", "drop_remainder")
_CYCLE = ("cycle_length", "block_length")
_F = ("map_func",)
_PARSED = (
    "sparse_keys", "sparse_types", "ragged_keys", "ragged_value_types", "ragged_split_types",
    "dense_keys", "dense_defaults", "dense_types",
)  # fmt: skip

# By class name: the classes are private and their modules move, their names have not since 2.12.
DATASET_KINDS: dict[str, DatasetKind] = {
    "_TensorSliceDataset": DatasetKind("from_tensor_slices"),
    "_TensorDataset": DatasetKind("from_tensors"),
    "_ListDataset": DatasetKind("from_list"),
    "_RangeDataset": DatasetKind("range", parameters=("start", "stop", "step")),
    "_RandomDataset": DatasetKind("random", ops.random_dataset, ("rerandomize",)),
    "RandomDatasetV2": DatasetKind("random", ops.random_dataset, ("rerandomize",)),
    "_LoadDataset": DatasetKind("load"),
    "CsvDatasetV2": DatasetKind("csv"),
    "SqlDatasetV2": DatasetKind("sql"),
    "TFRecordDatasetV2": DatasetKind("tfrecord", ops.wrapped_variant),
    "TextLineDatasetV2": DatasetKind("text_line", ops.wrapped_variant),
    "FixedLengthRecordDatasetV2": DatasetKind("fixed_length_record", ops.wrapped_variant),
    "_MapDataset": DatasetKind("map", ops.map_dataset, ("preserve_cardinality",), _F),
    "_ParallelMapDataset": DatasetKind(
        "map", ops.parallel_map_dataset, ("preserve_cardinality", "deterministic"), _F
    ),
    "_BatchDataset": DatasetKind("batch", ops.batch_dataset, _SIZES),
    "_ParallelBatchDataset": DatasetKind(
        "batch", ops.parallel_batch_dataset, (*_SIZES, "deterministic")
    ),
    "_PaddedBatchDataset": DatasetKind(
        "padded_batch", ops.padded_batch_dataset, (*_SIZES, "padded_shapes", "padding_values")
    ),
    "_ShuffleDataset": DatasetKind(
        "shuffle", ops.shuffle_dataset, ("buffer_size", "reshuffle_each_iteration")
    ),
    "_RepeatDataset": DatasetKind("repeat", ops.repeat_dataset, ("count",)),
    "_TakeDataset": DatasetKind("take", ops.take_dataset, ("count",)),
    "_SkipDataset": DatasetKind("skip", ops.skip_dataset, ("count",)),
    "_ShardDataset": DatasetKind("shard", ops.shard_dataset, ("num_shards", "index")),
    "_FilterDataset": DatasetKind("filter", ops.filter_dataset, (), ("predicate",)),
    "_TakeWhileDataset": DatasetKind("take_while", ops.take_while_dataset, (), ("predicate",)),
    "_FlatMapDataset": DatasetKind("flat_map", ops.flat_map_dataset, (), _F),
    "_InterleaveDataset": DatasetKind("interleave", ops.interleave_dataset, _CYCLE, _F),
    "_ParallelInterleaveDataset": DatasetKind(
        "interleave", ops.parallel_interleave_dataset, _CYCLE, _F
    ),
    "ParallelInterleaveDataset": DatasetKind(
        "interleave", ops.legacy_interleave_dataset, (*_CYCLE, "deterministic"), _F
    ),
    "CacheDataset": DatasetKind("cache", ops.cache_dataset),
    "_PrefetchDataset": DatasetKind("prefetch", ops.prefetch_dataset, ("buffer_size",)),
    "_OptionsDataset": DatasetKind("options", ops.options_dataset),
    "_AssertCardinalityDataset": DatasetKind(
        "assert_cardinality", ops.assert_cardinality_dataset, ("expected_cardinality",)
    ),
    "_UnbatchDataset": DatasetKind("unbatch", ops.unbatch_dataset),
    "_UniqueDataset": DatasetKind("unique", ops.unique_dataset),
    "_WindowDataset": DatasetKind(
        "window", ops.window_dataset, ("size", "shift", "stride", "drop_remainder")
    ),
    "_SnapshotDataset": DatasetKind(
        "snapshot", ops.snapshot_dataset, (), ("reader_func", "shard_func")
    ),
    "_RestructuredDataset": DatasetKind("restructure", ops.same_variant),
    "_ScanDataset": DatasetKind("scan", ops.scan_dataset, (), ("scan_func",)),
    "_GroupByWindowDataset": DatasetKind(
        "group_by_window",
        ops.group_by_window_dataset,
        functions=("key_func", "reduce_func", "window_size_func"),
    ),
    "_RebatchDataset": DatasetKind(
        "rebatch", ops.rebatch_dataset, ("batch_sizes", "drop_remainder")
    ),
    "_DenseToRaggedDataset": DatasetKind("to_ragged", ops.dense_to_ragged_dataset),
    "_DenseToSparseBatchDataset": DatasetKind(
        "sparse_batch", ops.dense_to_sparse_batch_dataset, ("batch_size", "row_shape")
    ),
    # Behind parse_example_dataset, and make_batched_features_dataset.
    "_ParseExampleDataset": DatasetKind(
        "parse_example", ops.parse_example_dataset, ("deterministic", *_PARSED)
    ),
    # Behind prefetch_to_device.
    "_CopyToDeviceDataset": DatasetKind(
        "copy_to_device", ops.copy_to_device_dataset, ("target_device", "source_device_string")
    ),
    "_IgnoreErrorsDataset": DatasetKind("ignore_errors", ops.ignore_errors_dataset),
    "_ZipDataset": DatasetKind("zip", ops.zip_dataset),
    # Behind sample_from_datasets, choose_from_datasets and rejection_resample.
    "_DirectedInterleaveDataset": DatasetKind(
        "choose", ops.directed_interleave_dataset, ("stop_on_empty_dataset",)
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
    inner = implementation_of(dataset)
    return [unwrap_v1_adapter(i) for i in (dataset if inner is None else inner)._inputs()]


def implementation_of(dataset: Dataset) -> Dataset | None:
    """The dataset that a reader of records or lines is made of; None for any other class."""
    return getattr(dataset, "_impl", None)


def unwrap_v1_adapter(dataset: Dataset) -> Dataset:
    """The dataset inside TensorFlow 1's adapter, or itself."""
    while isinstance(dataset, _V1Adapter):
        dataset = dataset._dataset
    return dataset
