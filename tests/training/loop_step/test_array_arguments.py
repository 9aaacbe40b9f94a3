"""Arrays that a loop hands to its step at each call, and what it does with them in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from uncork.training.loop_step.array_arguments import TensorCache, has_same_bytes
from uncork.training.loop_step.compiled_step import CompiledStep
from uncork.training.loop_step.mode import StepMode

ROWS = 1 << 16
KEPT = StepMode(array_arguments=("table", "weights"))


def loop(*, kept: bool) -> tuple[list[float], CompiledStep]:
    """Trains on rows of a table that the script changes in some steps."""
    table = np.random.default_rng(1).normal(size=(ROWS, 8)).astype("float32")
    weights = np.ones(ROWS * 2, "float64")
    state = tf.Variable(tf.zeros(8))

    @tf.function
    def train_step(table: Any, rows: Any, weights: Any = None) -> Any:
        state.assign_add(tf.reduce_mean(tf.gather(table, rows), axis=0))
        return tf.reduce_sum(state) + tf.cast(tf.reduce_sum(weights), tf.float32)

    step = CompiledStep(train_step)
    step.mode = KEPT if kept else StepMode.ORIGINAL
    found = []
    for number in range(8):
        if number == 3:
            table[-1] = 5.0
        if number == 5:
            weights[0] = -0.0
        if number == 6:
            table = table[: ROWS // 2].copy()
        rows = np.array([0, number, len(table) - 1], "int32")
        found.append(float(train_step(table, rows, weights=weights)))
    step.restore()
    return found, step


def test_losses_are_those_of_the_script_whatever_it_writes_into_its_arrays() -> None:
    (plain, _), (kept, step) = loop(kept=False), loop(kept=True)
    assert kept == plain
    assert step.mode_refusal == ""
    assert len(set(plain)) == len(plain)


def test_a_tensor_is_used_again_only_for_the_same_bytes() -> None:
    kept, array = TensorCache(), np.zeros((1 << 10, 1 << 9))
    first = kept.tensor_of("table", array)
    assert kept.tensor_of("table", array.copy()) is first
    array[-1, -1] = -0.0
    second = kept.tensor_of("table", array)
    assert second is not first
    assert np.signbit(second[-1, -1])
    assert not np.signbit(first[-1, -1])


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((1 << 11, 1 << 9))[:, ::2],
        np.full(1 << 18, b"word", object),
        np.zeros(4),
        np.zeros(1 << 18, ">f4"),
    ],
    ids=["in strides", "words", "few", "in another order of bytes"],
)
def test_others_are_made_tensors_each_time(array: Any) -> None:
    kept = TensorCache()
    assert kept.tensor_of("x", array) is not kept.tensor_of("x", array)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64", "complex64"])
def test_a_single_number_tells(dtype: str) -> None:
    array = np.zeros((3, (1 << 20) + 1), dtype)
    for place in ((0, 0), (1, 1 << 17), (2, 1 << 20)):
        other = array.copy()
        assert has_same_bytes(array, other)
        other[place] = 1
        assert not has_same_bytes(array, other)


def test_a_table_that_stays_the_same_is_recorded_once() -> None:
    table, step_of = np.zeros((1 << 18, 2), "float32"), tf.function(lambda t, n: t[0, 0] + n)
    step = CompiledStep(step_of)
    step.is_recording = True
    for number in range(3):
        table[0, 0] = float(number == 2)
        step_of(table, np.array(number, "float32"))
    step.restore()
    (first, _), (second, _), (third, _) = (args for args, _ in step.recorded_calls)
    assert second is first
    assert third is not first
    assert (first[0, 0], third[0, 0]) == (0.0, 1.0)


def test_a_function_that_casts_arrays_goes_on_as_written() -> None:
    """Of an array of doubles its signature makes floats, of a tensor of doubles an error."""
    said: list[tuple[str, str]] = []

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.float32)])
    def train_step(table: Any) -> Any:
        return tf.reduce_sum(table)

    step = CompiledStep(train_step, lambda how, why: said.append((how, why)))
    step.mode = StepMode(array_arguments=("table",))
    assert [float(train_step(np.ones(1 << 18))) for _ in range(2)] == [1 << 18] * 2
    step.restore()
    assert "TypeError" in step.mode_refusal
    assert len(said) == 1
