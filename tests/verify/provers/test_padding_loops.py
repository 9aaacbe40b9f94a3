"""A loop's step on longer arguments: what XLA compiles for, and whether it trains the same."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.capture.base.listener import LoopCall, LoopEvidence
from uncork.core.base.record import replace
from uncork.core.documents.plan import Proof
from uncork.core.edits.step import PadArguments
from uncork.core.evidence.batches import VaryingAxis, VaryingShapes
from uncork.engine.loop.dataset_loop_subject import DatasetLoopSubject
from uncork.engine.loop.loop_driver import run_engine_thread
from uncork.training.loop_step.compiled_step import CompiledStep
from uncork.training.loop_step.mode import StepMode
from uncork.verify.provers.loop_step import prove_loop_step

layers = keras.layers
TOKENS = 40
FORM = "(('int32 2', 'float32 1'), {})"


def longer(longest: int = 64, form: str = FORM) -> PadArguments:
    axes = (VaryingAxis(tensor_index=0, axis=1, max_length=longest),)
    return PadArguments(code_digest="", call_signature=form, multiple=8, axes=axes)


LONGER = longer()


def texts() -> tf.data.Dataset:
    """Rows of 3 to 7 tokens, four in a batch."""
    draw = np.random.default_rng(4)
    rows = [draw.integers(1, TOKENS, draw.integers(3, 8)) for _ in range(48)]
    tokens = tf.ragged.constant([row.tolist() for row in rows], dtype=tf.int32)
    labels = tf.constant([row[0] % 2 for row in rows], tf.float32)
    data = tf.data.Dataset.from_tensor_slices((tokens, labels)).map(lambda x, y: (x, y))
    return data.padded_batch(4)


class Training:
    """A classifier, and a step of the user's own that XLA compiles."""

    def __init__(self, *, masked: bool = True, returns: str = "loss", jit_compile: bool = True):
        keras.utils.set_random_seed(3)
        inputs = keras.Input((None,), dtype="int32")
        x = layers.Embedding(TOKENS, 6, mask_zero=masked)(inputs)
        self.model = keras.Model(inputs, layers.Dense(1)(layers.GlobalAveragePooling1D()(x)))
        self.optimizer = keras.optimizers.Adam(0.01)
        self.optimizer.build(self.model.trainable_variables)
        self.returns = returns
        self.step = tf.function(self.eager, jit_compile=jit_compile)

    def eager(self, x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((y[:, None] - self.model(x, training=True)) ** 2)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        others = {
            "loss": (),
            "tokens": (tf.size(x),),
            "mean": (tf.reduce_mean(tf.cast(x, tf.float32)),),
            "rows": (tf.reduce_max(x, axis=1),),
            "table": (tf.cast(x, tf.float32),),
        }
        return loss, *others[self.returns]

    @property
    def values(self) -> list[Any]:
        return [v.numpy() for v in (*self.model.variables, *self.optimizer.variables)]


def proved(training: Training, edit: PadArguments = LONGER) -> Proof:
    step = CompiledStep(training.step)
    step.is_recording = step.is_examined = True
    for x, y in texts():
        training.step(x, y)
    before = training.values
    try:
        return prove_loop_step(step, StepMode(padded_arguments=edit), "rounding")
    finally:
        step.restore()
        assert all(map(np.array_equal, before, training.values))


@pytest.mark.every(2)
@pytest.mark.parametrize("returns", ["loss", "rows"])
def test_a_model_that_masks_them_learns_the_same(returns: str) -> None:
    found = proved(Training(returns=returns))
    assert found.passed, found.detail
    assert found.kind == "rounding"


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("training", "detail"),
    [
        ({"masked": False}, "weights"),
        ({"returns": "tokens"}, "returns other values"),
        ({"returns": "mean"}, "returns other values"),
        ({"returns": "table"}, "as long as its arguments"),
    ],
)
def test_what_counts_them_is_refused(training: dict[str, Any], detail: str) -> None:
    found = proved(Training(**training))
    assert not found.passed
    assert detail in found.detail


@pytest.mark.deep
def test_calls_that_are_as_long_as_that_already_tell_nothing() -> None:
    found = proved(Training(), longer(3))
    assert not found.passed
    assert "is padded in axis 1 of tensor 0" in found.detail


def test_calls_of_another_form_prove_nothing() -> None:
    found = proved(Training(), longer(form="((), {})"))
    assert (found.passed, found.detail) == (False, "no batch was recorded")


class Ended(BaseException):
    """The engine has no more use for the loop."""


def shapes_of_loop(
    training: Training,
    data: tf.data.Dataset,
    folder: Path,
    use: Callable[[Any, Any], Any],
    look: Callable[[DatasetLoopSubject], Any] = lambda subject: subject.measure_varying_shapes(
        0.001, 0.2
    ),
) -> VaryingShapes | None:
    """What is found in a loop that calls its step in this way."""
    evidence = LoopEvidence(
        has_eager_step=False, steps_seen=0, tape_calls_per_step=1, eager_codes=()
    )
    subject = DatasetLoopSubject(
        LoopCall(0, "train.py:9", data, lambda: iter(data), evidence),
        epochs=None,
        scratch=str(folder),
    )
    ended, found = threading.Event(), list[VaryingShapes | None]()

    def looking() -> None:
        try:
            found.append(look(subject))
        finally:
            subject.restore()
            ended.set()

    def loop() -> None:
        for x, y in run_engine_thread(looking, subject.driver, Ended()):
            use(x, y)

    with pytest.raises(Ended):
        loop()
    assert ended.wait(60)
    return found[0]


@pytest.mark.deep
def test_shapes_and_fills_are_those_of_the_data(tmp_path: Path) -> None:
    training = Training()
    found = shapes_of_loop(training, texts(), tmp_path, training.step)
    assert found is not None
    assert found.axes == (VaryingAxis(tensor_index=0, axis=1, max_length=7),)
    assert found.call_signature == FORM
    assert found.batch_count > 12  # of some passes
    assert found.shape_count == len({tuple(x.shape) for x, _ in texts()})
    assert found.compile_s_per_shape > 0
    assert found.trace_s_per_shape > 0
    assert [each.shape_count for each in found.padded_shapes if each.multiple == 8] == [1]


@pytest.mark.deep
def test_parts_may_be_handed_over_otherwise(tmp_path: Path) -> None:
    training = Training()
    found = shapes_of_loop(training, texts(), tmp_path, lambda a, b: training.step(y=b, x=a))
    assert found is not None
    assert found.axes == (VaryingAxis(tensor_index=0, axis=1, max_length=7),)


def test_calls_of_several_forms_are_filled_up_by_nobody(tmp_path: Path) -> None:
    training, turns = Training(), itertools.cycle((True, False))

    def use(x: Any, y: Any) -> Any:
        return training.step(x, y) if next(turns) else training.step(x, y=y)

    found = shapes_of_loop(training, texts(), tmp_path, use)
    assert found is not None
    assert (found.axes, found.padded_shapes) == ((), ())


def test_proofs_find_room_for_calls_after_it(tmp_path: Path, monkeypatch: Any) -> None:
    """What was recorded to look at shapes is not counted against what they record."""
    monkeypatch.setattr("uncork.training.loop_step.loop_step._RECORDED_BYTES", 3_000)
    training = Training()
    steps: list[Any] = []

    def look(subject: DatasetLoopSubject) -> Any:
        found = subject.measure_varying_shapes(0.001, 0.2)
        version = subject.original.with_step_edits(
            (replace(LONGER, code_digest=subject.observed_workload().step_code_digest),)
        )
        steps.append(subject.prove_step(version, "rounding", 5.0))
        return found

    shapes_of_loop(training, texts(), tmp_path, training.step, look)
    assert steps[0].passed, steps[0].detail


def test_what_the_loop_makes_of_its_batch_is_filled_up_by_nobody(tmp_path: Path) -> None:
    training = Training()
    found = shapes_of_loop(
        training, texts(), tmp_path, lambda x, y: training.step(tf.concat([x, x], 1), y)
    )
    assert found is not None
    assert found.shape_count > 1
    assert (found.axes, found.padded_shapes) == ((), ())


@pytest.mark.parametrize("same", [True, False])
def test_nothing_is_compiled_anew_for_one_shape_or_without_xla(same: bool, tmp_path: Path) -> None:
    training = Training(jit_compile=same)
    data = texts().map(lambda x, y: (x[:, :3], y)) if same else texts()
    assert shapes_of_loop(training, data, tmp_path, training.step) is None
