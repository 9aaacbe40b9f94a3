from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.helpers import measured
from pipeline.profile.test_stage_costs import RANGE
from uncork.pipeline.functions.float32_variant import convert_to_float32

WAVE = tf.TensorSpec([1000], tf.float64)


def concrete(function, *specs):
    return tf.function(function).get_concrete_function(*(specs or (WAVE,)))


def loud(wave):
    return tf.math.log(tf.abs(tf.signal.rfft(wave * 0.5)) ** 2 + 1e-6)


def ops(function):
    return {(op.type, t.dtype) for op in function.graph.get_operations() for t in op.outputs}


def test_it_computes_in_float32_and_gives_what_it_gave():
    wide, wave = concrete(loud), tf.constant(np.random.default_rng(1).normal(size=1000))
    single = convert_to_float32(wide)
    assert [t.dtype for t in single.structured_outputs] == [tf.float64]
    np.testing.assert_allclose(single(wave)[0], wide(wave), rtol=1e-2, atol=1e-3)
    assert ("RFFT", tf.complex64) in ops(single)
    assert ("RFFT", tf.complex128) not in ops(single)


def test_captured_numbers_are_narrowed_too():
    matrix = tf.constant(np.random.default_rng(2).normal(size=(1000, 4)))
    wide = concrete(lambda wave: tf.linalg.matvec(matrix, wave, transpose_a=True))
    wave = tf.ones([1000], tf.float64)
    np.testing.assert_allclose(convert_to_float32(wide)(wave)[0], wide(wave), rtol=1e-3)


def test_other_dtypes_pass_through():
    wide = concrete(lambda x, label: (x * 2.0, label + 1), WAVE, tf.TensorSpec([], tf.int64))
    numbers, label = convert_to_float32(wide)(tf.ones([1000], tf.float64), tf.constant(3, tf.int64))
    assert numbers.dtype == tf.float64
    assert int(label) == 4


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.cast(x, tf.float32) * 2.0,
        lambda x: x,
        lambda x: x + tf.random.uniform([], dtype=tf.float64),
        lambda x: tf.numpy_function(lambda v: v, [x * 2.0], tf.float64),
        lambda x: tf.cond(x[0] > 0, lambda: x * 2.0, lambda: x),
    ],
)
def test_what_does_not_work_in_float64_or_not_by_itself_is_left_alone(function):
    assert convert_to_float32(concrete(function)) is None


def test_an_op_that_only_knows_float64_is_left_alone(monkeypatch):
    def refused(*_):
        raise ValueError("no such kernel")

    wide = concrete(loud)
    monkeypatch.setattr("uncork.pipeline.functions.float32_variant.trace", refused)
    assert convert_to_float32(wide) is None


def test_a_map_in_float64_is_timed_in_float32():
    def hear(number):
        return loud(tf.cast(tf.range(number, number + 20_000), tf.float64))

    found = measured(RANGE(64).map(hear).batch(4))[1]
    assert 0 < found.float32_cpu_s_per_element <= found.cpu_s_per_element
    assert measured(RANGE(64).map(lambda x: x + 1))[1].float32_cpu_s_per_element is None
