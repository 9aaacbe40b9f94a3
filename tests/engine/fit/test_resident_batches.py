"""The step alone, where batches are not all as long as the first one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from uncork.capture.base.stop import StopScript
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.loop.loop_driver import LoopDriver, run_engine_thread
from uncork.engine.loop.loop_runner import ResidentLoopRunner
from uncork.training.variant import Variant

LENGTHS = [3, 9, 4]


class Noting(keras.layers.Layer):
    """Tells how long its rows are each time that it runs, not only when it is traced."""

    def __init__(self, told: list[int]) -> None:
        super().__init__()
        self.tell = told.append  # a list of its own Keras would copy

    def call(self, rows: tf.Tensor) -> tf.Tensor:
        def note(length: Any) -> Any:
            self.tell(int(length))
            return np.float32(0)

        nothing = tf.numpy_function(note, [tf.shape(rows)[1]], tf.float32)
        return tf.reduce_mean(rows, axis=1, keepdims=True) + tf.reshape(nothing, (1, 1))


def batches() -> tf.data.Dataset:
    rows = tf.data.Dataset.from_tensor_slices(LENGTHS).map(lambda n: tf.ones((2, n)))
    return rows.map(lambda x: (x, tf.ones((2, 1))))


def test_a_fit_is_tried_on_batches_of_every_length(tmp_path: Path) -> None:
    told: list[int] = []
    model = keras.Sequential([keras.Input((None,)), Noting(told), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    tried = FitSubject(model, {"x": batches(), "epochs": 2}, 0, "train.py:9", str(tmp_path))
    runner = tried.resident_runner(Variant(None))
    told.clear()
    runner.prime()
    assert told[: len(LENGTHS)] == LENGTHS
    told.clear()
    runner.block(0.05)
    assert set(told) == set(LENGTHS)
    assert tried.unpadded_runner() is None


def test_a_loop_is_given_batches_of_every_length() -> None:
    given: list[int] = []
    board = LoopDriver(2.0, lambda _: None)
    runner = ResidentLoopRunner(board, LENGTHS, lambda: None)

    def measure() -> None:
        runner.prime()
        given.append(0)
        runner.block(0.01)

    run_engine_thread(measure, board, StopScript())
    with suppress(StopScript):
        for length in board:
            given.append(length)
    first, later = given[: given.index(0)], given[given.index(0) + 1 :]
    assert first[: len(LENGTHS)] == LENGTHS
    assert set(later) == set(LENGTHS)
