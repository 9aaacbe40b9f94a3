"""A loop's compiled step, many times in one function."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from uncork.engine.loop.grouped_loop import create_grouped_runner, measure_call_s


def test_each_group_runs_the_step_so_many_times() -> None:
    count = tf.Variable(0)
    step = tf.function(lambda by: count.assign_add(by + 0), autograph=False)
    runner = create_grouped_runner(functools.partial(step, tf.constant(2)), samples=8.0)
    assert runner is not None
    primed = int(count)
    assert primed > 2
    block = runner.block(0.02)
    assert int(count) - primed >= 2 * block.steps
    assert block.samples == 8.0 * block.steps
    assert (2 * block.steps) % primed == 0


def test_a_step_that_cannot_be_part_of_another_function_is_left_alone() -> None:
    def reads_a_value() -> float:
        return float(tf.constant(1.0) + tf.random.uniform(()))

    assert create_grouped_runner(reads_a_value, samples=1.0) is None


def test_a_call_is_timed_on_arguments_that_it_knows() -> None:
    traced: list[float] = []

    @tf.function
    def step(rate: float) -> Any:
        traced.append(rate)
        return tf.constant(1.0) * rate

    assert measure_call_s(lambda: step(0.25), 0.01) > 0
    assert traced == [0.25]


def test_a_step_that_cannot_be_called_again_tells_nothing() -> None:
    def step() -> None:
        raise ValueError("only once")

    assert measure_call_s(step, 0.01) is None
