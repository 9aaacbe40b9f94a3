from __future__ import annotations

import sys
import time

import pytest
import tensorflow as tf

from uncork.measure.benchmark.interleave import Block
from uncork.measure.profile.python_overhead import measure_op_time, python_s_per_step


def eager_steps(count: int, size: int = 64) -> None:
    x = tf.ones([size, size])
    w = tf.Variable(tf.ones([size, size]))
    for _ in range(count):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(x, w))
        w.assign_sub(1e-9 * tape.gradient(loss, w))


def test_ops_of_an_eager_loop_are_counted():
    eager_steps(1)
    with measure_op_time() as few:
        eager_steps(2)
    with measure_op_time() as many:
        eager_steps(20)
    assert few.call_count > 0
    assert many.call_count > 5 * few.call_count
    assert many.seconds > 0


def test_python_between_them_is_not_counted():
    begin = time.perf_counter()
    with measure_op_time() as watch:
        time.sleep(0.05)
        tf.add(1, 1)
    assert 0 < watch.seconds < time.perf_counter() - begin - 0.04


def test_no_op_no_time():
    with measure_op_time() as watch:
        sum(i * i for i in range(1000))
    assert (watch.call_count, watch.seconds) == (0, 0.0)


def test_a_function_is_one_call():
    @tf.function
    def step(x):
        for _ in tf.range(3):
            x = tf.matmul(x, x)
        return x

    x = tf.eye(4)
    step(x)
    with measure_op_time() as watch:
        step(x)
    assert watch.call_count == 1


def test_an_op_that_fails_is_closed():
    with measure_op_time() as watch:
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))
        tf.add(1, 1)
    assert watch.call_count >= 2
    assert watch.seconds > 0


def test_what_was_watching_before_goes_on():
    seen = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, arg: seen.append(event))
    try:
        with measure_op_time():
            pass
        mine = sys.getprofile()
    finally:
        sys.setprofile(before)
    assert mine is not None
    assert seen


def test_an_error_takes_the_watch_away():
    before = sys.getprofile()
    with pytest.raises(ValueError, match="mine"), measure_op_time():
        raise ValueError("mine")
    assert sys.getprofile() is before


def watched(steps, wall_s):
    return Block(steps=steps, samples=32.0 * steps, wall_s=wall_s, cpu_s=wall_s, warmup_s=0.0)


def test_python_of_a_step_is_what_its_ops_leave():
    assert python_s_per_step(0.10, watched(4, 0.8), ops_s=0.32) == pytest.approx(0.02)


def test_python_of_a_long_step_is_no_more_than_the_watched_one_had():
    """One block ran at another speed of the machine than the other."""
    assert python_s_per_step(0.070, watched(10, 0.605), ops_s=0.6) == pytest.approx(0.0005)


def test_python_is_never_less_than_nothing():
    assert python_s_per_step(0.05, watched(10, 0.605), ops_s=0.6) == 0


def test_python_of_no_step_is_unknown():
    assert python_s_per_step(0.05, watched(0, 0.1), ops_s=0.0) is None
