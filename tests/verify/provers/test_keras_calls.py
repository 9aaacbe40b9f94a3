"""What a loop asks of Keras's ``evaluate`` and ``predict``: seen, timed, and compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as keras_trainer

from uncork.engine.loop import loop_costs as loop_waits
from uncork.engine.loop.loop_costs import evaluation_calls_cost
from uncork.engine.loop.step_switch import StepSwitch
from uncork.measure.benchmark.interleave import Block
from uncork.measure.profile.keras_calls import KerasCall, observe_keras_calls
from uncork.training.input.iterator_reuse import ReusedIterators
from uncork.training.loop_step.mode import StepMode
from uncork.training.state.snapshot import training_variables
from uncork.training.variant import VariantRunner
from uncork.verify.provers import keras_calls as call_proofs
from uncork.verify.provers.keras_calls import iterator_creation_s, prove_evaluations

KERAS_S = keras_trainer.TFEpochIterator
DRAW = np.random.default_rng(4)
ROWS, ANSWERS = DRAW.random((20, 6), "float32"), DRAW.random((20, 2), "float32")


class Calling(VariantRunner):
    """A loop of one step that calls something."""

    def __init__(self, step: Callable[[], Any]) -> None:
        self._step = step

    def prime(self) -> float:
        return 0.0

    def first_epoch(self, limit_s: float) -> float | None:
        del limit_s
        return None

    def block(self, seconds: float) -> Block:
        del seconds
        begin = time.perf_counter()
        self._step()
        return Block(1, 1.0, time.perf_counter() - begin, 0.0, 0.0)


@pytest.fixture
def model() -> Any:
    keras.utils.set_random_seed(7)
    noise = keras.layers.GaussianNoise(0.1, seed=1)
    made = keras.Sequential([keras.Input((6,)), noise, keras.layers.Dense(2)])
    made.compile("adam", "mse", metrics=["mae"])
    made.evaluate(ROWS[:3], ANSWERS[:3], verbose=0)
    return made


@pytest.fixture(autouse=True)
def shortly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(call_proofs, "_LOOKING_S", 0.3)
    yield
    assert keras_trainer.TFEpochIterator is KERAS_S


def test_answers_that_stay_the_same_are_proved_and_the_model_is_left_alone(model: Any) -> None:
    before = [np.asarray(v.value).tobytes() for v in training_variables(model)]

    def run_steps() -> None:
        model.predict(ROWS, verbose=0)
        model.evaluate(ROWS, ANSWERS, batch_size=8, verbose=0)

    run_steps()
    before = [np.asarray(v.value).tobytes() for v in training_variables(model)]
    found = prove_evaluations(run_steps)
    assert found.passed, found.detail
    assert found.kind == "exact"
    assert [np.asarray(v.value).tobytes() for v in training_variables(model)] == before


def test_a_model_that_was_never_compiled_may_be_asked(model: Any) -> None:
    bare = keras.Sequential(model.layers)
    found = prove_evaluations(lambda: bare.predict(ROWS, verbose=0))
    assert found.passed, found.detail


def test_answers_that_differ_are_not_proved(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    as_keras = ReusedIterators.cut_batches

    def otherwise(self: ReusedIterators, adapter: Any) -> Any:
        return [[array[::-1] for array in batch] for batch in as_keras(self, adapter)]

    monkeypatch.setattr(ReusedIterators, "cut_batches", otherwise)
    found = prove_evaluations(lambda: model.predict(ROWS, verbose=0))
    assert not found.passed
    assert "differ" in found.detail


def test_what_was_not_seen_is_not_proved(model: Any) -> None:
    assert "did not call" in prove_evaluations(lambda: model.predict_on_batch(ROWS)).detail
    many = prove_evaluations(lambda: model.predict(ROWS.repeat(4, 0), batch_size=1, verbose=0))
    assert (many.passed, "none of its calls" in many.detail) == (False, True)


def test_a_call_tells_how_much_of_it_is_spared(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a fake clock, on which making one of Keras's iterators takes a quarter of a second."""
    made: list[None] = []
    make = KERAS_S._get_iterator

    def counted(self: Any) -> Any:
        made.append(None)
        return make(self)

    monkeypatch.setattr(KERAS_S, "_get_iterator", counted)
    clock = SimpleNamespace(perf_counter=lambda: 0.25 * len(made))
    monkeypatch.setattr(call_proofs, "time", clock)
    with observe_keras_calls() as found:
        model.predict(ROWS, verbose=0)
    all_of_it = clock.perf_counter()
    assert iterator_creation_s(found.last_calls[0]) == all_of_it > 0.0
    with observe_keras_calls() as found:
        model.predict(ROWS.repeat(4, 0), batch_size=1, verbose=0)
    assert iterator_creation_s(found.last_calls[0]) == 0.0


def test_a_call_that_gains_nothing_is_made_again_once(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with observe_keras_calls() as found:
        model.evaluate(ROWS.repeat(4, 0), ANSWERS.repeat(4, 0), batch_size=1, verbose=0)
        model.evaluate(ROWS, ANSWERS, verbose=0)
    monkeypatch.setattr(call_proofs, "_LONG_S", 0.0)
    for call in found.last_calls:
        with observe_keras_calls() as again:
            # Its method was taken before this block, so what is counted is that of the class.
            made = KerasCall(type(model).evaluate, call.model, call.arguments)
            assert iterator_creation_s(made) == 0.0
        assert again.count == 1


def test_a_call_that_fails_when_it_is_made_again_ends_no_diagnosis(model: Any) -> None:
    def once(model: Any, **given: Any) -> Any:
        raise RuntimeError("its file is gone")

    assert iterator_creation_s(KerasCall(once, model, {"x": ROWS})) == 0.0


def test_what_is_given_by_position_can_be_made_again(model: Any) -> None:
    with observe_keras_calls() as found:
        model.evaluate(ROWS, ANSWERS, 32, 0)
        expected = model.predict(ROWS, 32, 0)
    assert found.last_calls[0].arguments == {
        "x": ROWS,
        "y": ANSWERS,
        "batch_size": 32,
        "verbose": 0,
    }
    assert (found.last_calls[1].repeat() == expected).all()


def test_what_reads_on_or_works_again_is_not_made_again(model: Any) -> None:
    def batches() -> Iterator[tuple[Any, Any]]:
        for _ in range(20):
            yield ROWS, ANSWERS

    with observe_keras_calls() as found:
        model.evaluate(batches(), steps=2, verbose=0)
        model.evaluate(tf.data.Dataset.from_tensors((ROWS, ANSWERS)), verbose=0)
    assert (found.count, found.repeatable_count, list(found.last_calls)) == (2, 0, [])


def test_what_is_spared_counts_by_the_time_that_all_calls_take(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_waits, "iterator_creation_s", lambda call: 1e-4)
    dataset = tf.data.Dataset.from_tensors((ROWS, ANSWERS)).repeat(2000)

    def step() -> None:
        model.predict(ROWS, verbose=0)
        model.evaluate(dataset, verbose=0)

    found = evaluation_calls_cost(Calling(step), 0.1)
    assert found is not None
    assert 0.0 < found.setup_share < 0.01


def test_calls_are_counted_but_for_those_of_a_fit_and_those_with_callbacks_not_repeated(
    model: Any,
) -> None:
    with observe_keras_calls() as found:
        model.fit(ROWS, ANSWERS, validation_data=(ROWS, ANSWERS), verbose=0)
        assert found.count == 0
        model.evaluate(ROWS, ANSWERS, verbose=0)
        model.predict(ROWS, verbose=0, callbacks=[keras.callbacks.Callback()])
        with pytest.raises(ValueError, match="Unrecognized"):
            model.predict("rows", verbose=0)
    assert found.count == 2
    assert len(found.last_calls) == 1
    assert found.at is not None
    assert "test_keras_calls.py" in found.at
    assert 0.0 < found.tracing_s < found.seconds


def test_a_version_puts_it_in_force_and_the_script_s_own_out_of_it() -> None:
    switch = StepSwitch(None)
    switch.create_setup(StepMode.ORIGINAL, reuse_iterators=True)()
    assert keras_trainer.TFEpochIterator is not KERAS_S
    switch.create_setup(StepMode.ORIGINAL)()
    assert keras_trainer.TFEpochIterator is KERAS_S
