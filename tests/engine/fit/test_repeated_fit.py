"""Many calls of ``fit`` as one training: what is proved of them, and what a plan makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.backend.tensorflow import trainer as keras_trainer
from tensorflow.python.eager import context

from records import STEPS, WORKLOAD, plan, workload_diagnosis
from uncork.capture.base.listener import FitCall
from uncork.core.base.journal import Journal
from uncork.core.base.record import replace
from uncork.core.documents.job import TuneJob
from uncork.core.documents.plan import Plan
from uncork.core.edits.step import FusedUpdates, ReuseIterator
from uncork.engine.apply.plan_listener import PlanListener
from uncork.engine.fit.repeated_fit import FitCallCounter, RepeatedFitSubject
from uncork.engine.worker.job_listener import JobListener
from uncork.training.input.feed import spec_text
from uncork.training.input.iterator_reuse import ReusedIterators
from uncork.training.run.signature import model_signature
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import read_weights
from uncork.verify.provers import keras_calls as call_proofs

KERAS_RANDOM = ("global_seed_generator", "global_random_seed")
KERAS_S = keras_trainer.TFEpochIterator
DRAW = np.random.default_rng(4)
ROWS, ANSWERS = DRAW.random((48, 6), "float32"), DRAW.random((48, 2), "float32")
KEPT = next(step for step in STEPS if step.outcome == "kept")


def model() -> Any:
    keras.utils.set_random_seed(7)
    made = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), keras.layers.Dense(2)])
    made.compile("adam", "mse")
    made.optimizer.build(made.trainable_variables)
    return made


def call_of(made: Any, **given: Any) -> FitCall:
    defaults = {"validation_data": None, "validation_split": 0.0, "epochs": 1, "shuffle": True}
    arguments = {"x": ROWS, "y": ANSWERS, **defaults, **given}
    return FitCall(0, "train.py:9", made, arguments, made.fit)


def proof_of(made: Any, scratch: Path, **given: Any) -> Any:
    subject = RepeatedFitSubject(call_of(made, **given), str(scratch))
    version = subject.original.with_step_edits((ReuseIterator(),))
    try:
        return subject.prove_step(version, "exact", 5.0)
    finally:
        subject.restore()


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_proofs, "_CALLS", 3)


@pytest.fixture
def global_seed() -> Iterator[None]:
    yield
    tf.random.set_seed(None)


@pytest.mark.usefixtures("global_seed")
def test_calls_that_train_and_answer_alike_are_proved(tmp_path: Path) -> None:
    made = model()
    tf.random.set_seed(None)
    keras.random.normal(())  # from here on there is a generator that Keras draws from
    kept = [global_state.get_global_attribute(name) for name in KERAS_RANDOM]
    before, draws = [w.tobytes() for w in read_weights(made)], np.random.get_state()[1].tolist()
    found = proof_of(made, tmp_path)
    assert found.passed, found.detail
    assert "are equal" in found.detail
    assert context.global_seed() is None
    now = [global_state.get_global_attribute(name) for name in KERAS_RANDOM]
    assert all(a is b for a, b in zip(now, kept, strict=True))
    assert np.random.get_state()[1].tolist() == draws
    assert [w.tobytes() for w in read_weights(made)][: len(before)] == before


@pytest.mark.usefixtures("global_seed")
def test_a_model_with_a_step_of_its_own_and_no_loss_is_proved(tmp_path: Path) -> None:
    class Own(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(self(data[0]) ** 2)
            found = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(found, self.trainable_variables, strict=True))
            return {"mine": loss}

    made = Own([keras.Input((6,)), keras.layers.Dense(2)])
    made.compile("sgd")
    found = proof_of(made, tmp_path)
    assert found.passed, found.detail


@pytest.mark.every(2)
@pytest.mark.parametrize("place", ["order", "rows"])
def test_batches_that_are_cut_otherwise_are_not_proved(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_keras = ReusedIterators.cut_batches

    def otherwise(self: ReusedIterators, adapter: Any) -> Any:
        found = as_keras(self, adapter)
        return found[::-1] if place == "order" else [found[0]] * len(found)

    monkeypatch.setattr(ReusedIterators, "cut_batches", otherwise)
    found = proof_of(model(), tmp_path, batch_size=16)
    assert not found.passed
    assert "differ" in found.detail


@pytest.mark.deep
def test_calls_that_nothing_serves_are_not_proved(tmp_path: Path) -> None:
    found = proof_of(model(), tmp_path, batch_size=1)
    assert not found.passed
    assert "none of its calls" in found.detail


@pytest.mark.every(2)
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_proof_that_is_interrupted_leaves_everything_as_it_was(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = model()
    subject = RepeatedFitSubject(call_of(made), str(tmp_path))
    before, optimizer = [w.tobytes() for w in read_weights(made)], made.optimizer
    served = ReusedIterators.cut_batches

    def fail(self: ReusedIterators, adapter: Any) -> Any:
        if self.epoch_count > 2:
            raise error
        return served(self, adapter)

    monkeypatch.setattr(ReusedIterators, "cut_batches", fail)
    version = subject.original.with_step_edits((ReuseIterator(),))
    with pytest.raises(error):
        subject.prove_step(version, "exact", 5.0)
    subject.restore()
    assert [w.tobytes() for w in read_weights(made)] == before
    assert made.optimizer is optimizer
    assert keras_trainer.TFEpochIterator is KERAS_S
    assert keras.config.dtype_policy().name == "float32"


def test_what_follows_on_a_kept_iterator_is_proved_as_any_step(tmp_path: Path) -> None:
    subject = RepeatedFitSubject(call_of(model()), str(tmp_path))
    version = subject.original.with_step_edits((ReuseIterator(), FusedUpdates()))
    proof = subject.prove_step(version, "rounding", 5.0)
    subject.restore()
    assert proof.kind in ("exact", "rounding")
    assert "steps" in proof.detail


def planned(made: Any) -> Plan:
    workload = replace(
        WORKLOAD,
        index=0,
        kind="fit",
        data_kind="numpy",
        pipeline_digest="",
        element_spec=spec_text((ROWS, ANSWERS)),
        model=model_signature(made),
        batch_callbacks=(),
        is_fit_in_loop=True,
    )
    before = workload_diagnosis(workload=workload)
    return plan(before=before, steps=(replace(KEPT, edits=(ReuseIterator(),)),))


@pytest.mark.parametrize("to_the_end", [True, False])
def test_under_a_plan_all_calls_of_a_script_read_through_it(
    to_the_end: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keras_trainer, "TFEpochIterator", KERAS_S)  # put back at the end
    made = model()
    running = PlanListener(planned(made), strict=True, whole_process=to_the_end)
    for _ in range(3):
        running.fit(call_of(made, verbose=0))
    assert (keras_trainer.TFEpochIterator is not KERAS_S) == to_the_end
    answered = made.predict(ROWS, verbose=0)
    monkeypatch.setattr(keras_trainer, "TFEpochIterator", KERAS_S)
    other = model()
    for _ in range(3):
        other.fit(ROWS, ANSWERS, verbose=0)
    assert [w.tobytes() for w in read_weights(made)] == [w.tobytes() for w in read_weights(other)]
    assert (answered == other.predict(ROWS, verbose=0)).all()


def test_calls_on_one_model_are_a_loop_and_folds_are_none() -> None:
    calls, made, folds = FitCallCounter(), model(), [model() for _ in range(3)]
    assert [calls.count_call(0, made) for _ in range(4)] == [False, False, False, True]
    assert not calls.has_many_models(0)
    assert not any(calls.count_call(1, fold) for fold in folds)
    assert calls.has_many_models(1)


@pytest.mark.parametrize(("rounds", "reached"), [(3, [0]), (5, [3, 4])])
def test_a_loop_of_too_few_rounds_is_not_waited_for(
    rounds: int, reached: list[int], tmp_path: Path
) -> None:
    class Looking(JobListener):
        def run_on(self, subject: Any, machine: Any) -> Any:
            raise NotImplementedError

    trial, call = Looking(TuneJob(), Journal(), str(tmp_path)), call_of(model())
    brief = replace(WORKLOAD, kind="fit", data_kind="numpy", steps_per_epoch=8, epochs=1)
    found = []
    for each in range(rounds):
        if trial._subject(call, brief) is not None:
            found.append(each)
    assert found[: len(reached)] == reached


def test_settings_without_the_edit_keep_no_iterator() -> None:
    assert StepSettings(model()).reused_iterators is None
