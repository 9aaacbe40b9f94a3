"""Maps moved above their batch: the same batches, or a refusal."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.helpers import epochs, kinds
from uncork.compat.tf.pfor import converters
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import DrawFirst, VectorizeMap
from uncork.pipeline.analysis.legality import find_downstream_batch
from uncork.pipeline.equivalence.digests import element_digests
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.functions.batched_ops import extend_pfor_converters
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

LINES = [f"{n},{n * 0.25},{n % 3},word{n % 5}" for n in range(23)]


def moved(dataset, stage=1):
    pipeline = read_pipeline(dataset)
    return apply_edit(pipeline, VectorizeMap(stage=stage, expected_digest=pipeline.digest))


def both(dataset, stage=1):
    """Two passes over the twin of a pipeline, and over the same rewritten."""
    twins = [create_seeded_copy(read_pipeline(dataset), 5) for _ in range(2)]
    changed = apply_edit(twins[1], VectorizeMap(stage=stage, expected_digest=twins[1].digest))
    assert changed.element_spec == twins[0].element_spec
    return epochs(twins[0].dataset, 100), epochs(changed.dataset, 100)


def lines():
    return tf.data.Dataset.from_tensor_slices(LINES)


def csv(line):
    first, second, third, word = tf.io.decode_csv(line, [0.0, 0.0, 0, ""])
    return tf.stack([first, second]), third, word


def fields(line):
    numbers = tf.strings.to_number(tf.strings.split(line, ",")[:3])
    return tf.ensure_shape(numbers, (3,)), tf.square(numbers[0])


def crossed(line):
    parts = tf.strings.split(line, ",")
    pair = tf.strings.join([parts[2], "x", parts[3]])
    known = tf.strings.join([tf.strings.upper(parts), "k"], "-")
    return {"pair": tf.strings.to_hash_bucket_fast(pair, 97), "all": known}


def pattern(line):
    number = tf.strings.regex_replace(line, ",.*", "")
    return tf.strings.to_number(number, tf.int32), tf.strings.length(line)


@pytest.mark.parametrize("function", [csv, fields, crossed, pattern])
@pytest.mark.parametrize("drop", [True, False])
def test_lines_are_parsed_a_batch_at_a_time(function, drop):
    dataset = lines().map(function).batch(5, drop_remainder=drop)
    original, changed = both(dataset)
    assert changed == original
    assert kinds(moved(dataset)) == ["from_tensor_slices", "batch", "map"]


def example(number):
    features = {
        "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
        "raw": tf.train.Feature(
            bytes_list=tf.train.BytesList(
                value=[np.arange(number, number + 6, dtype="u1").tobytes()]
            )
        ),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.fixture
def records(tmp_path):
    path = str(tmp_path / "all.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(20):
            writer.write(example(number))
    return path


def parsed(record):
    kinds = {"id": tf.io.FixedLenFeature([], tf.int64), "raw": tf.io.FixedLenFeature([], tf.string)}
    return tf.io.parse_single_example(record, kinds)


def image(parts):
    pixels = tf.reshape(tf.io.decode_raw(parts["raw"], tf.uint8), (2, 3))
    return tf.cast(pixels, tf.float32) / 255.0, parts["id"]


def test_records_are_parsed_a_batch_at_a_time(records):
    dataset = tf.data.TFRecordDataset(records).shuffle(7, seed=1).map(parsed).batch(6)
    original, changed = both(dataset, len(read_pipeline(dataset).stages) - 2)
    assert changed == original


def test_what_reads_a_variable_is_not_moved():
    strength = tf.Variable(2, dtype=tf.int64)
    twin = read_pipeline(tf.data.Dataset.range(9).map(lambda x: x * strength).shuffle(9).batch(3))
    with pytest.raises(EditRefused, match="reads a variable"):
        apply_edit(twin, VectorizeMap(stage=1, expected_digest=twin.digest))


def test_maps_are_moved_one_after_the_other(records):
    dataset = tf.data.TFRecordDataset(records).map(parsed).shuffle(9).map(image).batch(6)
    original = epochs(create_seeded_copy(read_pipeline(dataset), 5).dataset)
    twin = create_seeded_copy(read_pipeline(dataset), 5)
    top = len(twin.stages) - 2
    below = top - 2
    with pytest.raises(EditRefused, match="comes map"):
        apply_edit(twin, VectorizeMap(stage=below, expected_digest=twin.digest))
    assert find_downstream_batch(twin, below, moved_maps={top}) == top + 1
    once = apply_edit(twin, VectorizeMap(stage=top, expected_digest=twin.digest))
    twice = apply_edit(once, VectorizeMap(stage=below, expected_digest=once.digest))
    assert kinds(twice)[-4:] == ["shuffle", "batch", "map", "map"]
    assert epochs(twice.dataset) == original


def test_what_picks_by_position_stays_below():
    dataset = lines().shuffle(9).map(csv).repeat(2).prefetch(1).shuffle(4).batch(5).prefetch(1)
    original, changed = both(dataset, 2)
    assert changed == original
    after = kinds(moved(dataset, 2))
    assert after.index("map") > after.index("batch") > after.index("repeat")


@pytest.mark.parametrize(("calls", "after"), [(None, 1), (tf.data.AUTOTUNE, -1), (200, -1)])
def test_the_map_runs_as_it_ran_but_holds_no_more_batches_than_needed(calls, after):
    dataset = lines().map(csv, num_parallel_calls=calls).batch(5)
    assert moved(dataset).stages[-1].parallelism == after


def test_what_does_not_depend_on_the_element_is_there_for_each():
    original, changed = both(lines().map(lambda line: (tf.constant([1, 2]), line)).batch(5))
    assert changed == original


def test_tables_are_shared_and_may_be_looked_up():
    words = tf.lookup.KeyValueTensorInitializer(["word1", "word3"], [1, 3])
    table = tf.lookup.StaticHashTable(words, -1)
    dataset = lines().map(lambda line: table.lookup(tf.strings.split(line, ",")[3])).batch(4)
    original, changed = both(dataset)
    assert changed == original


def test_a_traced_function_is_not_traced_again():
    traces = []

    def counted(line):
        traces.append(1)
        return csv(line)

    dataset = lines().map(counted).batch(5)
    before = len(traces)
    list(moved(dataset).dataset)
    assert len(traces) == before


def checked(line):
    length = tf.strings.length(line)
    tf.debugging.assert_greater(length, 0)
    return length


REFUSED = {
    "a random draw": lambda: lines().map(lambda s: (s, tf.random.uniform([]))).batch(4),
    "Python": lambda: lines().map(lambda s: tf.numpy_function(len, [s], tf.int64)).batch(4),
    "an assertion": lambda: lines().map(checked).batch(4),
    "no batch": lambda: lines().map(csv),
    "a filter between": lambda: lines().map(csv).filter(lambda *x: True).batch(4),
    "a cache between": lambda: lines().map(csv).cache().batch(4),
    "padding": lambda: lines().map(lambda s: tf.strings.unicode_decode(s, "UTF-8")).padded_batch(4),
    "ragged elements": lambda: lines().map(tf.strings.bytes_split).ragged_batch(4),
    "elements of several shapes": lambda: (
        tf.data.Dataset.range(9).map(tf.ones).map(tf.reduce_sum).batch(4)
    ),
    "an op that cannot be stacked": lambda: (
        lines().map(lambda s: tf.io.decode_jpeg(s, channels=3)).batch(1)
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    dataset = REFUSED[name]()
    stage = 2 if name == "elements of several shapes" else 1
    with pytest.raises(EditRefused):
        moved(dataset, stage)


def test_lines_of_unequal_length_are_an_error_as_in_batch():
    dataset = tf.data.Dataset.from_tensor_slices(["1,2", "3,4", "5,6,7", "8,9"])
    dataset = dataset.map(lambda line: tf.strings.split(line, ",")).batch(2)
    original, changed = (
        element_digests(d, epochs=1, max_elements=9, max_s=9).epochs[0]
        for d in (dataset, moved(dataset).dataset)
    )
    assert original.error.index == changed.error.index == 1
    assert original.error.type == changed.error.type == "InvalidArgumentError"


def test_a_corrupt_record_ends_the_same_batch(tmp_path):
    path = str(tmp_path / "torn.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(9):
            writer.write(example(number) if number != 5 else b"no example")
    dataset = tf.data.TFRecordDataset(path).map(parsed).batch(3)
    original, changed = both(dataset, len(read_pipeline(dataset).stages) - 2)
    assert original[0].error.index == 1
    assert (changed[0].error.type, changed[0].error.index) == ("InvalidArgumentError", 1)


def test_the_users_own_vectorizing_stays_as_tensorflow_made_it():
    before = dict(converters)
    with extend_pfor_converters():
        assert "LookupTableFindV2" in converters
    moved(lines().map(csv).batch(5))
    assert converters == before


def test_what_goes_by_draws_takes_a_batch_once_they_are_made():
    rows = np.random.default_rng(2).normal(size=(12, 16)).astype("float32")

    def disturbed(row):
        return tf.sort(tf.abs(row + tf.random.normal([16]))) * 2.0

    dataset = tf.data.Dataset.from_tensor_slices(rows).map(disturbed).batch(5)
    with pytest.raises(EditRefused):
        moved(dataset)
    as_it_is, changed = (create_seeded_copy(read_pipeline(dataset), 5) for _ in range(2))
    changed = apply_edit(changed, DrawFirst(stage=1, expected_digest=changed.digest))
    changed = apply_edit(changed, VectorizeMap(stage=2, expected_digest=changed.digest))
    assert kinds(changed)[:4] == ["from_tensor_slices", "map", "batch", "map"]
    assert epochs(changed.dataset) == epochs(as_it_is.dataset)


def rows(*lengths):
    """A record for each length: so many numbers, which a parser of a batch would pad."""
    found = []
    for length in lengths:
        numbers = tf.train.FloatList(value=[1.0, 3.0, 5.0, 7.0, 9.0, 11.0][:length])
        features = tf.train.Features(feature={"t": tf.train.Feature(float_list=numbers)})
        found.append(tf.train.Example(features=features).SerializeToString())
    return tf.data.Dataset.from_tensor_slices(found)


def some_of_each(record):
    kind = tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)
    numbers = tf.io.parse_single_example(record, {"t": kind})["t"]
    return tf.reduce_mean(numbers), tf.size(numbers)


def sums_of_sparse(record):
    numbers = tf.io.parse_single_example(record, {"t": tf.io.VarLenFeature(tf.float32)})["t"]
    return tf.reduce_sum(numbers.values), numbers.dense_shape


@pytest.mark.parametrize("parse", [some_of_each, sums_of_sparse])
def test_features_that_a_batch_would_pad_are_parsed_one_by_one(parse):
    """Where all records that a proof sees are as long, nobody would notice."""
    dataset = rows(6, 6, 6, 4).map(parse).batch(4)
    with pytest.raises(EditRefused):
        moved(dataset)


def test_behind_such_a_parser_work_may_be_done_a_batch_at_a_time():
    dataset = rows(6, 6, 6, 4).map(lambda r: tf.sqrt(some_of_each(r)[0]) + 1.0).batch(4)
    original, changed = both(dataset)
    assert changed == original
    assert kinds(moved(dataset)) == ["from_tensor_slices", "map", "batch", "map"]


def halved_or_doubled(x):
    x = tf.cast(x, tf.float32)
    return tf.sqrt(tf.cond(x > 3.0, lambda: x / 2.0, lambda: x * 2.0)) + 1.0


def test_maps_are_cut_behind_a_branch():
    dataset = tf.data.Dataset.range(9).map(halved_or_doubled).batch(4)
    original, changed = both(dataset)
    assert changed == original
    assert kinds(moved(dataset)) == ["range", "map", "batch", "map"]


IDS = tf.data.Dataset.from_tensor_slices([[0, 1], [0, 2], [0, 1], [0, 1]])
ELSEWHERE = {
    "an index without a place": lambda i: tf.math.unsorted_segment_sum(tf.ones([2]), i, 2),
    "rolled": lambda i: tf.roll(i, 1, -1),
    "formatted": lambda i: tf.strings.format("img_{}", i),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_what_tensorflow_does_otherwise_to_a_stack_is_not_moved(case):
    """An error in one element would become numbers in the next one's row."""
    with pytest.raises(EditRefused):
        moved(IDS.map(ELSEWHERE[case]).batch(4))
    with extend_pfor_converters():
        assert "Roll" not in converters
    assert "Roll" in converters


def test_a_batch_of_one_keeps_its_dimension():
    """Squeezed without an axis, a stack of one loses the stack."""
    rows = tf.data.Dataset.from_tensor_slices(tf.reshape(tf.range(21), [7, 3, 1]))
    ours, theirs = both(rows.map(tf.squeeze).batch(3))
    assert ours == theirs
    (last,) = list(moved(rows.map(tf.squeeze).batch(3)).dataset)[-1:]
    assert last.shape == (1, 3)
    named = rows.map(lambda x: tf.squeeze(x, axis=-1)).batch(3)
    ours, theirs = both(named)
    assert ours == theirs


def test_what_stands_for_a_missing_field_is_known():
    """TensorFlow's own way with stacks forgets it."""

    def parsed(line):
        number, word = tf.io.decode_csv(line, [-1.0, "none"], na_value="?")
        return number, word

    data = tf.data.Dataset.from_tensor_slices(["1,a", "?,b", "3,?", "4,d"])
    ours, theirs = both(data.map(parsed).batch(2))
    assert ours == theirs
    words = [
        word for _, batch in moved(data.map(parsed).batch(2)).dataset for word in batch.numpy()
    ]
    assert words == [b"a", b"b", b"none", b"d"]


@pytest.mark.parametrize(
    "between", [lambda d: d.skip(3), lambda d: d.take(9), lambda d: d.shard(2, 1)]
)
def test_what_picks_by_position_may_lie_between(between):
    numbers = tf.data.Dataset.range(20).map(lambda x: tf.cast(x, tf.float32) * 2)
    ours, theirs = both(between(numbers).shuffle(20, seed=2).batch(4))
    assert ours == theirs
