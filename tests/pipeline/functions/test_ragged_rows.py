"""Maps that split lines into words, moved above the padded batch of these."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.helpers import epochs, kinds
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import VectorizeMap
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

LINES = [
    "a b c\t1", "\t0", "b\t1", "d d  e f g h\t2", " c a \t0", "a\t3", "x y z a b\t1", "g\t0",
]  # fmt: skip


def lines():
    return tf.data.Dataset.from_tensor_slices(LINES)


def numbers():
    return tf.data.Dataset.from_tensor_slices(["1 2 3", "", "40", "5 6 7 8 9", "10 11", "-3 4"])


def table():
    words = tf.lookup.KeyValueTensorInitializer(list("abcdefg"), tf.range(1, 8, dtype=tf.int64))
    return tf.lookup.StaticHashTable(words, default_value=-1)


@pytest.fixture(scope="module", autouse=True)
def _table():
    """Made here: who holds what was there before the tests began cannot be asked."""
    global TABLE  # noqa: PLW0603
    TABLE = table()


def looked_up(line):
    text, label = tf.unstack(tf.strings.split(line, "\t"), 2)
    return TABLE.lookup(tf.strings.split(text)), tf.strings.to_number(label, tf.int32)


def cut_off(line):
    words = tf.strings.lower(tf.strings.split(line))[:3]
    return {"words": words, "ids": tf.strings.to_hash_bucket_fast(words, 97) + 2, "line": line}


def cut_then_read(line):
    return tf.strings.to_number(tf.strings.split(line)[:2], tf.int64) * 2 % 7


def at_most_twice(line):
    return tf.strings.split(line, maxsplit=1), tf.constant([1.0, 2.0])


def letters(line):
    return tf.cast(tf.strings.length(tf.strings.split([line]).values), tf.float32)


def both(data, stage=1):
    """Two passes over the twin of a pipeline, and over the same rewritten."""
    twins = [create_seeded_copy(read_pipeline(data), 5) for _ in range(2)]
    changed = apply_edit(twins[1], VectorizeMap(stage=stage, expected_digest=twins[1].digest))
    assert changed.element_spec == twins[0].element_spec
    assert changed.cardinality == twins[0].cardinality
    return epochs(twins[0].dataset, 100), epochs(changed.dataset, 100)


@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize(
    ("data", "function"),
    [
        (lines, looked_up),
        (lines, cut_off),
        (numbers, cut_then_read),
        (lines, at_most_twice),
        (lines, letters),
    ],
)
def test_words_are_made_a_batch_at_a_time(data, function, drop):
    original, changed = both(data().map(function).padded_batch(3, drop_remainder=drop))
    assert changed == original
    assert original[0].error is None


def test_rows_are_filled_with_what_the_batch_fills_them_with():
    data = lines().map(looked_up)
    padded = data.padded_batch(5, ([None], []), (np.int64(-7), 0))
    original, changed = both(padded)
    assert changed == original
    pipeline = read_pipeline(padded)
    after = apply_edit(pipeline, VectorizeMap(stage=1, expected_digest=pipeline.digest))
    assert kinds(after) == ["from_tensor_slices", "batch", "map"]
    ids, labels = next(iter(after.dataset))
    assert ids.numpy()[1].tolist() == [-7] * 6
    assert labels.shape == [5]


def test_batches_that_are_filled_up_differently_have_functions_of_their_own():
    data = lines().map(looked_up)
    first = both(data.padded_batch(3, padding_values=(np.int64(-1), None)))
    second = both(data.padded_batch(3, padding_values=(np.int64(-2), None)))
    assert first[0] == first[1] != second[1] == second[0]


def test_lines_without_any_word():
    original, changed = both(
        tf.data.Dataset.from_tensor_slices(["\t1", "\t2", " \t3"]).map(looked_up).padded_batch(2)
    )
    assert changed == original


def test_a_word_that_is_no_number_fails_in_the_same_batch():
    data = tf.data.Dataset.from_tensor_slices(["1 2", "3", "4 five", "6"])
    original, changed = both(
        data.map(lambda x: tf.strings.to_number(tf.strings.split(x))).padded_batch(2)
    )
    assert changed[0].digests == original[0].digests
    assert changed[0].error.index == original[0].error.index == 1
    assert changed[0].error.type == original[0].error.type


def test_what_was_cut_off_is_not_read():
    """Only what is left behind the cut is turned into a number: the rest need not be one."""
    data = tf.data.Dataset.from_tensor_slices(["1 2 three", "4", "5 6"])
    original, changed = both(data.map(cut_then_read).padded_batch(2))
    assert original[0].error is None
    assert changed == original


def test_shuffle_and_repeat_stay_below():
    data = lines().map(looked_up).shuffle(4, seed=3).repeat(2).padded_batch(3).prefetch(1)
    original, changed = both(data)
    assert changed == original


REFUSED = {
    "how many": lambda x: tf.range(tf.size(tf.strings.split(x))),
    "turned round": lambda x: tf.reverse(tf.strings.split(x), [0]),
    "without the first": lambda x: tf.strings.split(x)[1:],
    "every other one": lambda x: tf.strings.split(x)[::2],
    "without the last": lambda x: tf.strings.split(x)[:-1],
    "of several strings": lambda x: tf.strings.split([x, x]).values,
    "with what differs": lambda x: (
        tf.strings.to_number(tf.strings.split(x)) + tf.strings.to_number(x)
    ),
    "with itself": lambda x: (
        tf.strings.length(tf.strings.split(x)) + tf.range(tf.size(tf.strings.split(x)))
    ),
    "each from elsewhere": lambda x: tf.strings.substr(
        tf.strings.split(x)[:1],
        tf.range(tf.cast(TABLE.size(), tf.int32)),
        tf.ones([tf.cast(TABLE.size(), tf.int32)], tf.int32),
    ),
    "with their sum": lambda x: (
        tf.strings.to_number(tf.strings.split(x)),
        tf.reduce_sum(tf.strings.to_number(tf.strings.split(x))),
    ),
    "no more than so many": lambda x: tf.strings.split([x]).values[
        : tf.minimum(tf.strings.split([x]).row_lengths()[0], 20_000)
    ],
    "at what differs": lambda x: tf.strings.split(x, tf.strings.substr(x, 0, 1)),
    "joined": lambda x: tf.concat([tf.strings.split(x), tf.strings.split(x)], 0),
}


@pytest.mark.parametrize("function", REFUSED.values(), ids=REFUSED)
def test_what_is_not_done_place_by_place_is_left_below(function):
    pipeline = read_pipeline(numbers().map(function).padded_batch(2))
    with pytest.raises(EditRefused, match="cannot take a whole batch"):
        apply_edit(pipeline, VectorizeMap(stage=1, expected_digest=pipeline.digest))


def test_rows_of_a_length_that_was_given_are_left_below():
    """A longer row is an error of the padded batch."""
    pipeline = read_pipeline(lines().map(looked_up).padded_batch(2, ([9], [])))
    with pytest.raises(EditRefused, match="cannot take a whole batch"):
        apply_edit(pipeline, VectorizeMap(stage=1, expected_digest=pipeline.digest))


def test_a_padded_batch_with_nothing_to_fill_is_a_batch():
    data = numbers().map(tf.strings.length).padded_batch(4)
    original, changed = both(data)
    assert changed == original


def test_words_with_their_number_are_left_below():
    def counted(x):
        words = tf.strings.split(x)
        return words, tf.size(words)

    pipeline = read_pipeline(numbers().map(counted).padded_batch(2))
    with pytest.raises(EditRefused, match="cannot take a whole batch"):
        apply_edit(pipeline, VectorizeMap(stage=1, expected_digest=pipeline.digest))


def test_rows_that_are_said_to_be_of_one_length_are_left_below():
    """The padded batch fills up those that are not."""

    def said(x):
        words = tf.strings.split(x)[:3]
        words.set_shape([3])
        return words

    pipeline = read_pipeline(numbers().map(said).padded_batch(2))
    with pytest.raises(EditRefused, match="cannot take a whole batch"):
        apply_edit(pipeline, VectorizeMap(stage=1, expected_digest=pipeline.digest))


def test_a_text_out_of_a_record():
    def record(number):
        texts = [b"a b c", b"", b"d e"]
        value = tf.train.BytesList(value=[texts[number % 3]])
        features = tf.train.Features(feature={"t": tf.train.Feature(bytes_list=value)})
        return tf.train.Example(features=features).SerializeToString()

    def words(x):
        parsed = tf.io.parse_single_example(x, {"t": tf.io.FixedLenFeature([1], tf.string)})
        return tf.strings.split(parsed["t"]).values

    data = tf.data.Dataset.from_tensor_slices([record(n) for n in range(7)])
    original, changed = both(data.map(words).padded_batch(3))
    assert changed == original


def test_words_that_no_line_has_are_no_error():
    """It is tried out on lines of none, which these are not."""

    def words(x):
        split = tf.raw_ops.StringSplitV2(input=[x], sep="")
        return split.values[0 : tf.cast(split.indices[-1, 1] + 1, tf.int32)]

    data = numbers().filter(lambda x: tf.strings.length(x) > 0).map(words).padded_batch(2)
    pipeline = read_pipeline(data)
    with pytest.raises(EditRefused, match="cannot take a whole batch"):
        apply_edit(pipeline, VectorizeMap(stage=2, expected_digest=pipeline.digest))


def test_a_zero_below_zero_fills_up_as_such():
    data = numbers().map(lambda x: tf.strings.to_number(tf.strings.split(x)))
    for zero in np.array([0.0, -0.0], np.float32):
        pipeline = read_pipeline(data.padded_batch(2, padding_values=zero))
        after = apply_edit(pipeline, VectorizeMap(stage=1, expected_digest=pipeline.digest))
        ours, theirs = (next(iter(d)).numpy()[1] for d in (after.dataset, pipeline.dataset))
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))


def test_half_precision_is_filled_up_too():
    def halves(x):
        return tf.cast(tf.strings.to_number(tf.strings.split(x)), tf.bfloat16)

    pipeline = read_pipeline(numbers().map(halves).padded_batch(2))
    after = apply_edit(pipeline, VectorizeMap(stage=1, expected_digest=pipeline.digest))
    for ours, theirs in zip(after.dataset, pipeline.dataset, strict=True):
        assert ours.dtype == tf.bfloat16
        np.testing.assert_array_equal(
            tf.cast(ours, tf.float32).numpy(), tf.cast(theirs, tf.float32).numpy()
        )


def test_errors_that_are_ignored_must_not_cost_a_batch():
    data = tf.data.Dataset.from_tensor_slices(["1", "3", "x", "4"]).map(tf.strings.to_number)
    pipeline = read_pipeline(data.prefetch(1).batch(2).ignore_errors())
    with pytest.raises(EditRefused, match="ignored"):
        apply_edit(pipeline, VectorizeMap(stage=1, expected_digest=pipeline.digest))
