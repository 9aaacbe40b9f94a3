from __future__ import annotations

import importlib
import pkgutil
import random

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.data import ops as tensorflow_ops
from tensorflow.python.data.experimental import ops as tensorflow_experimental_ops
from tensorflow.python.data.ops import dataset_ops

from pipeline.helpers import behind_unknown, epochs
from uncork.compat.tfdata.dataset_classes import DATASET_KINDS, kind_of
from uncork.compat.tfdata.dataset_rebuild import rebuild
from uncork.core.base.errors import EditRefused, MissingPrivateApi
from uncork.pipeline.ir.element_order import is_order_preserved
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.runtime.trial_copy import copy_pipeline

RANGE = tf.data.Dataset.range


def ragged():
    return tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], [], [4, 5, 6]]))


def sparse():
    return tf.data.Dataset.from_tensor_slices(tf.sparse.from_dense([[1, 0], [0, 2], [3, 3]]))


def example(x):
    """A serialized record of two numbers."""

    def made(value):
        numbers = tf.train.Feature(int64_list=tf.train.Int64List(value=[value, value + 1]))
        features = tf.train.Features(feature={"a": numbers})
        return tf.train.Example(features=features).SerializeToString()

    found = tf.numpy_function(made, [x], tf.string)
    found.set_shape([])
    return found


def parsed():
    features = {"a": tf.io.FixedLenFeature([2], tf.int64), "b": tf.io.VarLenFeature(tf.float32)}
    return tf.data.experimental.parse_example_dataset(features, num_parallel_calls=2)


CASES = {
    "map": lambda: RANGE(9).map(lambda x: x * 2),
    "map_dict": lambda: RANGE(9).map(lambda x: {"a": x, "b": (x, tf.strings.as_string(x))}),
    "map_ragged": lambda: ragged().map(lambda x: x + 1),
    "map_sparse": lambda: sparse().map(lambda x: tf.sparse.map_values(tf.add, x, 1)),
    "parallel_map": lambda: RANGE(9).map(lambda x: x * 2, num_parallel_calls=2),
    "unordered_map": lambda: RANGE(9).map(
        lambda x: x * 2, num_parallel_calls=1, deterministic=False
    ),
    "batch": lambda: RANGE(9).batch(4),
    "batch_drop": lambda: RANGE(9).batch(4, drop_remainder=True),
    "parallel_batch": lambda: RANGE(9).batch(4, num_parallel_calls=2),
    "batch_ragged": lambda: ragged().batch(2),
    "batch_sparse": lambda: sparse().batch(2),
    "padded_batch": lambda: RANGE(9).map(lambda x: tf.fill([x], x)).padded_batch(4),
    "padded_batch_values": lambda: (
        RANGE(9)
        .map(lambda x: (tf.fill([x], x), x))
        .padded_batch(4, ([10], []), (np.int64(-1), None), drop_remainder=True)
    ),
    "ragged_batch": lambda: (
        RANGE(9).map(lambda x: tf.fill([x], x)).ragged_batch(4).map(lambda x: x)
    ),
    "sparse_batch": lambda: RANGE(9).map(lambda x: tf.fill([x], x)).sparse_batch(4, [10]),
    "parse_example": lambda: RANGE(9).map(example).batch(4).apply(parsed()),
    "copy_to_device": lambda: RANGE(9).apply(tf.data.experimental.copy_to_device("/cpu:0")),
    "shuffle": lambda: RANGE(20).shuffle(7, seed=3),
    "shuffle_fixed": lambda: RANGE(20).shuffle(7, seed=3, reshuffle_each_iteration=False),
    "repeat": lambda: RANGE(3).repeat(2),
    "repeat_infinite": lambda: RANGE(3).repeat(),
    "take": lambda: RANGE(9).take(4),
    "skip": lambda: RANGE(9).skip(4),
    "shard": lambda: RANGE(9).shard(3, 1),
    "filter": lambda: RANGE(9).filter(lambda x: x % 2 == 0),
    "take_while": lambda: RANGE(9).take_while(lambda x: x < 5),
    "flat_map": lambda: RANGE(5).flat_map(tf.data.Dataset.range),
    "interleave": lambda: RANGE(5).interleave(tf.data.Dataset.range, cycle_length=2),
    "parallel_interleave": lambda: RANGE(5).interleave(
        tf.data.Dataset.range, cycle_length=2, num_parallel_calls=2, deterministic=True
    ),
    "cache": lambda: RANGE(9).cache(),
    "prefetch": lambda: RANGE(9).prefetch(2),
    "prefetch_auto": lambda: RANGE(9).prefetch(tf.data.AUTOTUNE),
    "assert_cardinality": lambda: (
        RANGE(9).filter(lambda x: x > 3).apply(tf.data.experimental.assert_cardinality(5))
    ),
    "unbatch": lambda: RANGE(9).batch(2).unbatch(),
    "unique": lambda: RANGE(9).map(lambda x: x % 4).unique(),
    "window": lambda: RANGE(9).window(3, 2).flat_map(lambda w: w.batch(3)),
    "zip": lambda: tf.data.Dataset.zip({"a": RANGE(3), "b": RANGE(5).map(lambda x: -x)}),
    "enumerate": lambda: RANGE(5).map(lambda x: -x).enumerate(),
    "concatenate": lambda: RANGE(3).concatenate(RANGE(5)),
    "random": lambda: tf.data.Dataset.random(seed=4).take(5),
    "random_anew": lambda: tf.data.Dataset.random(seed=4, rerandomize_each_iteration=True).take(5),
    "scan": lambda: RANGE(9).scan(np.int64(0), lambda total, x: (total + x, total * x)),
    "scan_nested": lambda: RANGE(9).scan(
        {"a": np.int64(1), "b": tf.zeros([2])},
        lambda s, x: ({"a": s["a"] + x, "b": s["b"] + 1.0}, (s["b"], x)),
    ),
    "scan_random": lambda: RANGE(9).scan(0, lambda s, x: (s, tf.random.uniform([], seed=4))),
    "group_by_window": lambda: RANGE(9).group_by_window(
        lambda x: x % 2, lambda key, window: window.batch(3), window_size=3
    ),
    "bucket": lambda: (
        RANGE(9)
        .map(lambda x: tf.fill([x], x))
        .bucket_by_sequence_length(tf.size, [3, 6], [2, 3, 1])
    ),
    "rebatch": lambda: RANGE(9).batch(4).rebatch(3, drop_remainder=True),
    "rebatch_in_turn": lambda: RANGE(9).batch(4).rebatch([1, 3]),
    "ignore_errors": lambda: (
        RANGE(9)
        .map(lambda x: tf.debugging.check_numerics(1.0 / tf.cast(x - 3, tf.float32), "no"))
        .ignore_errors(log_warning=True)
    ),
    "choose": lambda: tf.data.Dataset.choose_from_datasets(
        [RANGE(3), RANGE(10, 15)], RANGE(2).repeat(3)
    ),
    "sample": lambda: tf.data.Dataset.sample_from_datasets(
        [RANGE(5), RANGE(10, 15).map(lambda x: -x)], [0.3, 0.7], seed=5
    ),
    "rejection": lambda: (
        RANGE(40)
        .map(lambda x: (x % 3, x))
        .rejection_resample(lambda key, x: tf.cast(key, tf.int32), [0.4, 0.3, 0.3], seed=2)
    ),
    "named": lambda: RANGE(5).map(lambda x: x, name="mine").batch(2, name="b"),
    "empty": lambda: RANGE(0).map(lambda x: x).shuffle(3, seed=1).batch(2),
}


@pytest.mark.parametrize("case", CASES)
def test_a_rebuilt_pipeline_is_equal(case):
    original = CASES[case]()
    copy = copy_pipeline(read_pipeline(original)).dataset
    assert copy is not original
    assert copy.element_spec == original.element_spec
    assert int(copy.cardinality()) == int(original.cardinality())
    assert repr(copy) == repr(original)
    assert read_pipeline(copy).digest == read_pipeline(original).digest
    assert epochs(copy) == epochs(original)


def test_text_lines_and_records_are_rebuilt(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        writer.write(b"three")
    for data in (
        tf.data.TextLineDataset([str(tmp_path / "a.txt")]),
        tf.data.TFRecordDataset([str(tmp_path / "a.tfrecord")]),
        tf.data.TFRecordDataset([str(tmp_path / "a.tfrecord")] * 2, num_parallel_reads=2),
    ):
        assert epochs(copy_pipeline(read_pipeline(data)).dataset) == epochs(data)


def test_options_are_kept():
    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 3
    data = RANGE(5).with_options(options).map(lambda x: x).batch(2)
    kept = copy_pipeline(read_pipeline(data)).dataset.options()
    assert kept.deterministic is False
    assert kept.threading.private_threadpool_size == 3


def test_the_function_is_not_traced_again_and_tables_survive():
    traces = []
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.range(9, dtype=tf.int64), tf.range(9) * 3), -1
    )
    generator = tf.random.Generator.from_seed(5)

    def look_up(x):
        traces.append(x)
        y = tf.numpy_function(lambda v: v * 2, [x], tf.int64)
        return table.lookup(x), y, generator.uniform([])

    data = RANGE(9).map(look_up)
    before = epochs(data)
    copy = copy_pipeline(read_pipeline(data)).dataset
    del data
    assert epochs(copy) == before
    assert len(traces) == 1


def test_no_random_state_is_touched():
    tf.keras.utils.set_random_seed(11)
    data = RANGE(9).shuffle(4).map(lambda x: x + tf.random.uniform([], 0, 9, tf.int64))
    states = random.getstate(), np.random.get_state()[1].tolist()
    copy_pipeline(read_pipeline(data))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states
    seen = float(tf.random.uniform([]))
    tf.keras.utils.set_random_seed(11)
    RANGE(9).shuffle(4).map(lambda x: x + tf.random.uniform([], 0, 9, tf.int64))
    assert float(tf.random.uniform([])) == seen


def test_an_untouched_node_is_the_same_object():
    data = RANGE(3).cache()
    assert rebuild(data, [data._input_dataset]) is data


def test_an_unknown_class_is_refused():
    with pytest.raises(EditRefused, match="_SleepDataset"):
        rebuild(behind_unknown(RANGE(4)), [RANGE(4)])


def test_a_missing_field_is_a_named_error():
    data = RANGE(9).map(abs)
    del data._use_inter_op_parallelism
    with pytest.raises(MissingPrivateApi, match=r"_MapDataset\._use_inter_op_parallelism'"):
        rebuild(data, [RANGE(9)])


def test_all_known_classes_exist():
    for module in pkgutil.iter_modules(tensorflow_ops.__path__):
        importlib.import_module(f"{tensorflow_ops.__name__}.{module.name}")
    tf.data.experimental.CsvDataset  # noqa: B018 - loads its module
    tf.data.experimental.assert_cardinality(1)

    def below(class_):
        return {class_.__name__}.union(*map(below, class_.__subclasses__()))

    assert set(DATASET_KINDS) <= below(dataset_ops.DatasetV2)


# What Uncork knows nothing about: bases, and classes that stand inside others or in Google's own
# machinery; what nobody has written for years; and data that another process makes.
OPAQUE = {
    *("DatasetSource", "UnaryDataset", "UnaryUnchangedStructureDataset", "_NonSerializableDataset"),
    *("_FixedLengthRecordDataset", "_TFRecordDataset", "_TextLineDataset", "MatchingFilesDataset"),
    *("_AssertNextDataset", "_AssertPrevDataset", "_AutoShardDataset", "_GlobalShuffleDataset"),
    *("_GeneratorDataset", "_LegacyRebatchDataset", "_LegacySnapshotDataset", "_MapOnGpuDataset"),
    *("_PerDeviceGenerator", "_ReincarnatedPerDeviceGenerator", "_RemoteDataset", "_SleepDataset"),
    *("_ListSnapshotChunksDataset", "_SnapshotChunkDataset", "_VariantDataset"),
    *("_GroupByReducerDataset", "_MapAndBatchDataset", "_ShuffleAndRepeatDataset"),
    *("_SparseTensorSliceDataset", "_DataServiceDatasetV2"),
}


def test_no_class_of_tensorflow_s_is_overlooked():
    for package in (tensorflow_ops, tensorflow_experimental_ops):
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")

    def below(class_):
        return {class_}.union(*map(below, class_.__subclasses__()))

    package = "tensorflow.python.data."
    theirs = {c for c in below(dataset_ops.DatasetV2) if c.__module__.startswith(package)}
    first = {c.__name__ for c in theirs if not issubclass(c, dataset_ops.DatasetV1)}
    assert first - {"DatasetV2"} - set(DATASET_KINDS) <= OPAQUE


def test_a_class_of_the_same_name_elsewhere_is_unknown():
    class _MapDataset:
        pass

    assert kind_of(_MapDataset()).name == "opaque"


def test_what_holds_too_much_to_be_read_is_judged_but_not_copied(monkeypatch):
    """Flags that a class does not keep stand in its graph, which is limited to 2 GB."""

    def too_much(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "larger than 2 GB")

    numbers = tf.data.Dataset.range(4)
    for data in (
        numbers.interleave(tf.data.Dataset.from_tensors, num_parallel_calls=2),
        numbers.ignore_errors(),
    ):
        monkeypatch.setattr(type(data), "_as_serialized_graph", too_much)
        assert is_order_preserved(read_pipeline(data).root)
        with pytest.raises(EditRefused, match="holds too many bytes"):
            rebuild(data, [tf.data.Dataset.range(5)])
        monkeypatch.undo()
