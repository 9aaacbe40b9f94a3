"""Pipelines whose numbers are rounded otherwise, and those that differ in more than that."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from uncork.pipeline.equivalence.closeness import compare_closeness

ROWS = np.random.default_rng(0).normal(size=(12, 5)).astype("float32")


def of(*arrays, batch=4):
    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0]).batch(batch)


def test_the_same_is_not_apart():
    found = compare_closeness(of(ROWS), of(ROWS.copy()), epochs=2)
    assert (found.element_count, found.max_ulps, found.failure, found.is_complete) == (
        6,
        0.0,
        "",
        True,
    )


def test_the_last_place_is_one_rounding_or_less():
    nudged = np.nextafter(ROWS, np.float32(9))
    found = compare_closeness(of(ROWS), of(nudged))
    assert not found.failure
    assert 0 < found.max_ulps <= 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64"])
def test_other_precisions_have_other_roundings(dtype):
    epsilon = {"float16": 2**-10, "bfloat16": 2**-7, "float64": 2**-52, "complex64": 2**-23}[dtype]
    ones = tf.data.Dataset.from_tensors(tf.ones([2, 3], dtype))
    more = tf.data.Dataset.from_tensors(tf.cast(tf.fill([2, 3], 1 + 2 * epsilon), dtype))
    if dtype == "float64":
        more = tf.data.Dataset.from_tensors(np.full((2, 3), 1 + 2 * epsilon))
    assert compare_closeness(ones, more).max_ulps == pytest.approx(2, rel=0.1)


def test_a_small_row_is_not_hidden_by_a_large_one():
    rows = np.array([[1e6, 1e6], [1e-3, 2e-3]], "float32")
    others = rows + np.array([[0, 0], [1e-4, 0]], "float32")
    assert compare_closeness(of(rows), of(others)).max_ulps > 1e5


def test_zeros_are_zeros():
    zeros = np.zeros((4, 3), "float32")
    assert compare_closeness(of(zeros), of(zeros)).max_ulps == 0
    assert compare_closeness(of(zeros), of(zeros + np.float32(1e-30))).max_ulps == math.inf


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.arange(12), np.arange(12) + (np.arange(12) == 7)),
        (np.array(list("abcd")), np.array(list("abce"))),
        (np.array([1.0, np.nan, 2.0]), np.array([1.0, 0.0, 2.0])),
        (np.array([1.0, np.inf]), np.array([1.0, -np.inf])),
        (np.array([1.0, 0.0, 2.0]), np.array([1.0, np.nan, 2.0])),
        (np.array([1.0, 2.0]), np.array([1.0, np.inf])),
    ],
    ids=[
        "integers",
        "text",
        "not a number",
        "infinite",
        "no number any more",
        "not finite any more",
    ],
)
def test_where_nothing_is_rounded_everything_must_be_equal(one, other):
    assert "a value that is not rounded" in compare_closeness(of(one), of(other)).failure


def test_what_is_no_number_may_be_none_in_both():
    odd = np.array([[np.nan, np.inf, -np.inf, 1.0]], "float32")
    assert compare_closeness(of(odd), of(odd)).max_ulps == 0


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (of(ROWS), of(ROWS[:8]), "exists in only one"),
        (of(ROWS), of(ROWS, batch=3), "different structure"),
        (of(ROWS), of(ROWS.astype("float64")), "different structure"),
        (of(ROWS), of(ROWS, ROWS), "different structure"),
        (of(ROWS).window(2), of(ROWS).window(2), "more than tensors"),
    ],
    ids=["shorter", "shape", "dtype", "structure", "windows"],
)
def test_anything_else_is_no_rounding(one, other, said):
    assert said in compare_closeness(one, other).failure


def failing(at, message="torn"):
    def check(x):
        with tf.control_dependencies([tf.debugging.assert_less(x, tf.constant(at), message)]):
            return tf.cast(x, tf.float32)

    return tf.data.Dataset.range(6, output_type=tf.int32).map(check)


def test_errors_must_stand_at_the_same_place():
    found = compare_closeness(failing(3), failing(3))
    assert (found.failure, found.element_count, found.is_complete) == ("", 6, False)
    assert "exists in only one" in compare_closeness(failing(3), failing(4)).failure


def test_a_part_of_an_endless_pass_is_compared():
    endless = of(ROWS).repeat()
    found = compare_closeness(endless, endless, epochs=1, max_elements=7)
    assert (found.element_count, found.is_complete) == (7, False)
    assert not compare_closeness(endless, endless, epochs=1, max_s=0.05).is_complete
