"""Functions that are defined once, and those that every epoch defines anew."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from uncork.engine.loop.recreated_functions import is_recreated, recreated_function_cost
from uncork.measure.profile.function_calls import CompiledCalls, observe_compiled_calls


@tf.function
def once(x: tf.Tensor) -> tf.Tensor:
    return x + 1


def train_one_epoch() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        return x + 2

    for value in range(3):
        step(tf.constant(value))


def main() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        return x + 6

    for _ in range(2):
        for value in range(3):
            step(tf.constant(value))


def made_elsewhere() -> object:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        return x + 3

    return step


STEP = made_elsewhere()


def epochs_and_models() -> list[CompiledCalls]:
    """As a module would: a function for each epoch, then one for each model."""
    found = []
    for _ in range(2):
        step = tf.function(lambda x: x + 4, autograph=False)
        with observe_compiled_calls() as calls:
            for value in range(2):
                step(tf.constant(value))
    found.append(calls)
    for _ in range(2):
        step = tf.function(lambda x: x + 5, autograph=False)
        for _ in range(2):
            with observe_compiled_calls() as calls:
                for value in range(2):
                    step(tf.constant(value))
    return [*found, calls]


def test_what_the_function_around_the_loop_defines_is_made_by_each_call_of_it() -> None:
    with observe_compiled_calls() as found:
        train_one_epoch()
    (call,) = found.last_calls
    assert is_recreated(call.func, found, is_in_loop=True)
    assert not is_recreated(call.func, found, is_in_loop=False)
    found.caller_names = ("another",)
    assert not is_recreated(call.func, found, is_in_loop=True)


def test_what_is_defined_before_all_epochs_is_made_once() -> None:
    with observe_compiled_calls() as found:
        main()
    (call,) = found.last_calls
    assert not is_recreated(call.func, found, is_in_loop=True)


def test_what_it_takes_is_seen_on_one_more() -> None:
    with observe_compiled_calls() as found:
        train_one_epoch()
    again = recreated_function_cost(found, step_s=0.0, is_in_loop=True)
    assert again is not None
    assert again.first_call_extra_s > 0.001  # traced anew
    assert again.at is not None
    assert again.at.endswith("test_recreated_functions.py:20")


@pytest.mark.parametrize("function", [once, STEP], ids=["in the module", "by a factory"])
def test_what_was_made_once_is_not_made_anew(function: Any) -> None:
    with observe_compiled_calls() as found:
        for value in range(3):
            function(tf.constant(value))
    assert not is_recreated(function, found, is_in_loop=True)
    assert recreated_function_cost(found, step_s=0.0, is_in_loop=True) is None


def test_in_a_module_it_is_the_loop_around_the_batches_that_counts() -> None:
    """Here within a function, whose name is taken out of the way."""
    each_epoch, each_model = epochs_and_models()
    for found, expected in ((each_epoch, True), (each_model, False)):
        (call,) = found.last_calls
        call.func.python_function.__qualname__ = "<lambda>"
        assert is_recreated(call.func, found, is_in_loop=True) == expected
