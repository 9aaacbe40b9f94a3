"""The classes of datasets that Uncork knows, each with the raw op that its constructor calls.

An op function takes an object, whose fields are set, and its inputs' variant tensors, and returns
the variant tensor that the constructor would have made. Fields are read by the names that the
classes use; a test rebuilds every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.data.util import nest, structure
from tensorflow.python.ops import gen_dataset_ops, gen_experimental_dataset_ops

Dataset = Any  # tf.data.Dataset: TensorFlow ships no types
Variant = Any


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


def _captured(dataset: Dataset, field: str) -> Any:
    return getattr(dataset, field).function.captured_inputs


def _present(dataset: Dataset, **fields: str) -> dict[str, Any]:
    """Op attributes that only some TensorFlow versions have, taken where the object has them."""
    return {
        name: getattr(dataset, field) for name, field in fields.items() if hasattr(dataset, field)
    }


def _map(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.map_dataset(
        v[0],
        _captured(d, "_map_func"),
        f=d._map_func.function,
        use_inter_op_parallelism=d._use_inter_op_parallelism,
        preserve_cardinality=d._preserve_cardinality,
        **_present(d, force_synchronous="_force_synchronous"),
        **d._common_args,
    )


def _parallel_map(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.parallel_map_dataset_v2(
        v[0],
        _captured(d, "_map_func"),
        f=d._map_func.function,
        num_parallel_calls=d._num_parallel_calls,
        deterministic=d._deterministic,
        use_inter_op_parallelism=d._use_inter_op_parallelism,
        preserve_cardinality=d._preserve_cardinality,
        **_present(d, use_unbounded_threadpool="_use_unbounded_threadpool"),
        **d._common_args,
    )


def _batch(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.batch_dataset_v2(
        v[0], batch_size=d._batch_size, drop_remainder=d._drop_remainder, **d._common_args
    )


def _parallel_batch(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.parallel_batch_dataset(
        v[0],
        batch_size=d._batch_size,
        num_parallel_calls=d._num_parallel_calls,
        drop_remainder=d._drop_remainder,
        deterministic=d._deterministic,
        **d._common_args,
    )


def _padded_batch(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.padded_batch_dataset_v2(
        v[0],
        batch_size=d._batch_size,
        padded_shapes=[tf.convert_to_tensor(s, tf.int64) for s in nest.flatten(d._padded_shapes)],
        padding_values=nest.flatten(d._padding_values),
        drop_remainder=d._drop_remainder,
        output_shapes=structure.get_flat_tensor_shapes(d.element_spec),
        metadata=d._metadata.SerializeToString(),
    )


def _shuffle(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.shuffle_dataset_v3(
        v[0],
        buffer_size=d._buffer_size,
        seed=d._seed,
        seed2=d._seed2,
        seed_generator=d.__dict__.get("seed_generator", gen_dataset_ops.dummy_seed_generator()),
        reshuffle_each_iteration=_reshuffles(d),
        **d._common_args,
    )


def _reshuffles(d: Dataset) -> bool:
    # None means the default, as in Dataset.shuffle.
    return d._reshuffle_each_iteration is None or bool(d._reshuffle_each_iteration)


def _repeat(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.repeat_dataset(v[0], count=d._count, **d._common_args)


def _take(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.take_dataset(v[0], count=d._count, **d._common_args)


def _skip(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.skip_dataset(v[0], count=d._count, **d._common_args)


def _shard(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.shard_dataset(
        v[0], num_shards=d._num_shards, index=d._index, **d._common_args
    )


def _filter(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.filter_dataset(
        v[0],
        other_arguments=_captured(d, "_predicate"),
        predicate=d._predicate.function,
        **d._common_args,
    )


def _take_while(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_experimental_dataset_ops.take_while_dataset(
        v[0],
        other_arguments=_captured(d, "_predicate"),
        predicate=d._predicate.function,
        **d._common_args,
    )


def _flat_map(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.flat_map_dataset(
        v[0], _captured(d, "_map_func"), f=d._map_func.function, **d._common_args
    )


def _interleave(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.interleave_dataset(
        v[0],
        _captured(d, "_map_func"),
        d._cycle_length,
        d._block_length,
        f=d._map_func.function,
        **d._common_args,
    )


def _parallel_interleave(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.parallel_interleave_dataset_v4(
        v[0],
        _captured(d, "_map_func"),
        d._cycle_length,
        d._block_length,
        d._buffer_output_elements,
        d._prefetch_input_elements,
        d._num_parallel_calls,
        f=d._map_func.function,
        deterministic=interleave_determinism(d),
        **d._common_args,
    )


def interleave_determinism(d: Dataset) -> str:
    """``true``, ``false`` or ``default``, read from the graph: the class does not keep its flag."""
    known = d.__dict__.get("_uncork_deterministic")
    if known is None:
        policy = tf.data.experimental.ExternalStatePolicy.IGNORE
        text = d._as_serialized_graph(external_state_policy=policy).numpy()
        nodes = tf.compat.v1.GraphDef.FromString(text).node
        found = [n for n in nodes if n.op == "ParallelInterleaveDatasetV4"]
        # Nodes come inputs first, so the last one is this dataset's own.
        known = found[-1].attr["deterministic"].s.decode() if found else "default"
        d.__dict__["_uncork_deterministic"] = known
    return str(known)


def _legacy_interleave(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_experimental_dataset_ops.legacy_parallel_interleave_dataset_v2(
        v[0],
        _captured(d, "_map_func"),
        d._cycle_length,
        d._block_length,
        d._buffer_output_elements,
        d._prefetch_input_elements,
        f=d._map_func.function,
        deterministic=d._deterministic,
        **d._common_args,
    )


def _cache(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.cache_dataset_v2(
        v[0],
        filename=d._filename,
        cache=gen_dataset_ops.dummy_memory_cache(),
        **d._common_args,
    )


def _prefetch(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.prefetch_dataset(
        v[0],
        buffer_size=d._buffer_size,
        legacy_autotune=bool(d._buffer_size == tf.data.AUTOTUNE),
        **d._common_args,
    )


def _options(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.options_dataset(
        v[0], d._options_attr._to_proto().SerializeToString(), **d._common_args
    )


def _assert_cardinality(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_experimental_dataset_ops.assert_cardinality_dataset(
        v[0], d._expected_cardinality, **d._flat_structure
    )


def _unbatch(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_experimental_dataset_ops.unbatch_dataset(v[0], **d._common_args)


def _unique(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_experimental_dataset_ops.unique_dataset(v[0], **d._common_args)


def _window(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.window_dataset(
        v[0],
        size=d._size,
        shift=d._shift,
        stride=d._stride,
        drop_remainder=d._drop_remainder,
        **d._common_args,
    )


def _snapshot(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_experimental_dataset_ops.snapshot_dataset_v2(
        v[0],
        d._path,
        _captured(d, "_reader_func"),
        _captured(d, "_shard_func"),
        compression=d._compression,
        reader_func=d._reader_func.function,
        shard_func=d._shard_func.function,
        **d._common_args,
    )


def _zip(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.zip_dataset(list(v), **d._common_args)


def _concatenate(d: Dataset, v: Sequence[Variant]) -> Variant:
    return gen_dataset_ops.concatenate_dataset(v[0], v[1], **d._common_args)


def _same(d: Dataset, v: Sequence[Variant]) -> Variant:
    return v[0]


def _wrapped(d: Dataset, v: Sequence[Variant]) -> Variant:
    return d._impl._variant_tensor


_SIZES = ("_batch_size", "_drop_remainder")
_CYCLE = ("_cycle_length", "_block_length")
_F = ("_map_func",)

# By class name: the classes are private and their modules move, their names have not since 2.12.
KINDS: dict[str, Kind] = {
    "_TensorSliceDataset": Kind("from_tensor_slices"),
    "_TensorDataset": Kind("from_tensors"),
    "_ListDataset": Kind("from_list"),
    "_RangeDataset": Kind("range", parameters=("_start", "_stop", "_step")),
    "_RandomDataset": Kind("random"),
    "_LoadDataset": Kind("load"),
    "CsvDatasetV2": Kind("csv"),
    "TFRecordDatasetV2": Kind("tfrecord", _wrapped),
    "TextLineDatasetV2": Kind("text_line", _wrapped),
    "FixedLengthRecordDatasetV2": Kind("fixed_length_record", _wrapped),
    "_MapDataset": Kind("map", _map, ("_preserve_cardinality",), _F),
    "_ParallelMapDataset": Kind(
        "map", _parallel_map, ("_preserve_cardinality", "_deterministic"), _F
    ),
    "_BatchDataset": Kind("batch", _batch, _SIZES),
    "_ParallelBatchDataset": Kind("batch", _parallel_batch, (*_SIZES, "_deterministic")),
    "_PaddedBatchDataset": Kind(
        "padded_batch", _padded_batch, (*_SIZES, "_padded_shapes", "_padding_values")
    ),
    "_ShuffleDataset": Kind(
        "shuffle", _shuffle, ("_buffer_size", "_reshuffle_each_iteration")
    ),
    "_RepeatDataset": Kind("repeat", _repeat, ("_count",)),
    "_TakeDataset": Kind("take", _take, ("_count",)),
    "_SkipDataset": Kind("skip", _skip, ("_count",)),
    "_ShardDataset": Kind("shard", _shard, ("_num_shards", "_index")),
    "_FilterDataset": Kind("filter", _filter, (), ("_predicate",)),
    "_TakeWhileDataset": Kind("take_while", _take_while, (), ("_predicate",)),
    "_FlatMapDataset": Kind("flat_map", _flat_map, (), _F),
    "_InterleaveDataset": Kind("interleave", _interleave, _CYCLE, _F),
    "_ParallelInterleaveDataset": Kind("interleave", _parallel_interleave, _CYCLE, _F),
    "ParallelInterleaveDataset": Kind(
        "interleave", _legacy_interleave, (*_CYCLE, "_deterministic"), _F
    ),
    "CacheDataset": Kind("cache", _cache),
    "_PrefetchDataset": Kind("prefetch", _prefetch, ("_buffer_size",)),
    "_OptionsDataset": Kind("options", _options),
    "_AssertCardinalityDataset": Kind(
        "assert_cardinality", _assert_cardinality, ("_expected_cardinality",)
    ),
    "_UnbatchDataset": Kind("unbatch", _unbatch),
    "_UniqueDataset": Kind("unique", _unique),
    "_WindowDataset": Kind(
        "window", _window, ("_size", "_shift", "_stride", "_drop_remainder")
    ),
    "_SnapshotDataset": Kind("snapshot", _snapshot, (), ("_reader_func", "_shard_func")),
    "_RestructuredDataset": Kind("restructure", _same),
    "_ZipDataset": Kind("zip", _zip),
    "_ConcatenateDataset": Kind("concatenate", _concatenate),
    # Made by `save`; listed so that trials know that it writes. It cannot be rebuilt.
    "_SaveDataset": Kind("save"),
}  # fmt: skip

OPAQUE = Kind("opaque")


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
