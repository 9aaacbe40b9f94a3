from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from uncork.pipeline.equivalence.digests import element_digest, element_digests

RANGE = tf.data.Dataset.range


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (tf.constant([1, 2]), tf.constant([2, 1])),
        (tf.constant([1, 2]), tf.constant([[1, 2]])),
        (tf.constant([1]), tf.constant([1], tf.int64)),
        (tf.constant([0.0]), tf.negative([0.0])),
        (tf.constant("ab"), tf.constant("a")),
        (tf.constant(["ab", "c"]), tf.constant(["a", "bc"])),
        ({"a": tf.constant(1)}, {"b": tf.constant(1)}),
        ((tf.constant(1), tf.constant(2)), (tf.constant(2), tf.constant(1))),
        ((tf.constant(1),), tf.constant(1)),
        (tf.ragged.constant([[1], [2, 3]]), tf.ragged.constant([[1, 2], [3]])),
        (tf.sparse.from_dense([1, 0]), tf.sparse.from_dense([0, 1])),
        ((tf.constant(1), None), (tf.constant(1),)),
    ],
)
def test_differences_are_seen(one, other):
    assert element_digest(one) != element_digest(other)
    assert element_digest(one) == element_digest(one)
    assert len(element_digest(one)) == 16


def test_keys_may_come_in_any_order():
    a, b = tf.constant(1), tf.constant(2)
    assert element_digest({"a": a, "b": b}) == element_digest({"b": b, "a": a})


def test_nan_equals_itself():
    assert element_digest(tf.constant(np.nan)) == element_digest(tf.constant(np.nan))


def test_limits_make_a_pass_incomplete():
    found = element_digests(RANGE(9).repeat(), epochs=2, max_elements=5)
    assert [len(epoch.digests) for epoch in found.epochs] == [5, 5]
    assert not found.is_complete
    assert found.element_count == 10


def test_time_is_a_limit_too():
    found = element_digests(RANGE(9).repeat(), epochs=1, max_elements=10**9, max_s=0.2)
    assert 0 < found.element_count < 10**9


def test_an_empty_dataset_is_complete():
    assert element_digests(RANGE(0)).epochs[0].is_complete


def test_an_error_is_noted_where_it_fell():
    data = RANGE(9).map(lambda x: tf.debugging.check_numerics(6.0 / tf.cast(6 - x, tf.float32), ""))
    epoch = element_digests(data, epochs=1).epochs[0]
    assert not epoch.is_complete
    assert (epoch.error.index, epoch.error.type) == (6, "InvalidArgumentError")
    assert "{{" not in epoch.error.message


def test_an_error_in_python_is_noted():
    def fail(x):
        raise ValueError(f"bad {int(x)}")

    data = RANGE(3).map(lambda x: tf.py_function(fail, [x], tf.int64))
    error = element_digests(data, epochs=1).epochs[0].error
    assert error.index == 0
    assert "bad 0" in error.message


def test_windows_are_looked_into():
    one = element_digests(RANGE(6).window(2), epochs=1)
    assert one == element_digests(RANGE(6).window(2), epochs=1)
    assert one != element_digests(RANGE(7).skip(1).window(2), epochs=1)


def test_scalars_in_half_precision_have_one():
    """TensorFlow makes no array of such a tensor by itself."""
    halves = tf.data.Dataset.range(3).map(lambda x: tf.cast(x, tf.bfloat16))
    assert len(set(element_digests(halves, epochs=1).epochs[0].digests)) == 3


def test_an_element_that_has_no_digest_is_no_end_of_the_data():
    """Else two passes over such elements, of any values, would be equal: each failed at once."""
    data = tf.data.Dataset.range(3).map(lambda x: (x, tf.raw_ops.OptionalNone()))
    with pytest.raises(Exception, match=r"(?i)variant|numpy|convert"):
        element_digests(data)
