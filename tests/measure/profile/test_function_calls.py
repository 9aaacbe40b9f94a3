"""Functions that Python calls, told from those that functions call."""

from __future__ import annotations

import threading

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from uncork.measure.profile.function_calls import observe_compiled_calls


@tf.function
def inner(x: tf.Tensor) -> tf.Tensor:
    return x + 1


@tf.function
def outer(x: tf.Tensor) -> tf.Tensor:
    return 2 * inner(x)


class Trainer:
    @tf.function
    def step(self, x: tf.Tensor) -> tf.Tensor:
        return 3 * x


def test_what_a_function_calls_is_not_counted() -> None:
    with observe_compiled_calls() as found:
        for value in (1, 2, 3):
            outer(tf.constant(value))
    assert found.count == 3
    (last,) = found.last_calls
    assert int(last()) == 8
    assert found.caller_names == ("test_what_a_function_calls_is_not_counted",)
    assert found.at is not None
    assert found.at.rpartition(":")[0].endswith("test_function_calls.py")


def test_methods_are_functions_too_and_two_are_not_one() -> None:
    trainer = Trainer()
    with observe_compiled_calls() as found:
        trainer.step(tf.constant(1))
        trainer.step(tf.constant(2))
    assert (found.count, len(found.last_calls)) == (2, 1)
    with observe_compiled_calls() as found:
        trainer.step(tf.constant(1))
        inner(tf.constant(2))
    assert (found.count, len(found.last_calls)) == (2, 2)


def test_other_threads_are_not_the_loop() -> None:
    with observe_compiled_calls() as found:
        thread = threading.Thread(target=lambda: inner(tf.constant(1)))
        thread.start()
        thread.join()
    assert (found.count, found.last_calls) == (0, ())


def test_functions_are_called_as_ever_afterwards() -> None:
    before = Function.__call__
    with observe_compiled_calls():
        assert int(outer(tf.constant(1))) == 4
    assert Function.__call__ is before


def test_functions_of_keras_s_trainer_are_its_own() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with observe_compiled_calls() as found:
        outer(tf.constant(1))
    assert found.is_called_by_user_code
    with observe_compiled_calls() as found:
        model.train_on_batch(np.ones((2, 2)), np.ones((2, 1)))
    assert found.count == 1
    assert not found.is_called_by_user_code
