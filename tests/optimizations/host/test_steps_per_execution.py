from __future__ import annotations

import pytest

from optimizations.situations import CHATTY, COMPUTING, SITUATIONS, proposal, reason
from records import observed
from uncork.core.edits.step import StepsPerExecution
from uncork.optimizations.host.steps_per_execution import StepsPerExecutionOptimization

CHAIN = StepsPerExecutionOptimization()


def training(step_s: float = 0.002, shares=CHATTY, ceilings=None, **workload):
    changes = {} if ceilings is None else {"ceilings": ceilings}
    return observed(step_s=step_s, shares=shares, workload=workload, **changes)


def steps(diagnosis) -> int:
    (edit,) = proposal(CHAIN, diagnosis).edits
    assert isinstance(edit, StepsPerExecution)
    return edit.steps


def test_time_between_steps_is_saved():
    found = proposal(CHAIN, training())
    assert found.edits == (StepsPerExecution(steps=64),)
    assert found.predicted == pytest.approx(1 / (1 - 0.6 * 63 / 64))
    assert "steps_per_execution=64" in found.source_edit


@pytest.mark.parametrize(("step_s", "expected"), [(1e-9, 64), (0.05, 10), (0.1, 5), (0.25, 2)])
def test_an_execution_lasts_half_a_second_at_most(step_s, expected):
    assert steps(training(step_s)) == expected


@pytest.mark.parametrize("length", [2, 7, 63])
def test_an_execution_is_not_longer_than_an_epoch(length):
    assert steps(training(steps_per_epoch=length)) == length


@pytest.mark.parametrize(
    ("length", "expected"), [(100, 50), (128, 64), (312, 52), (10, 10), (9, 9)]
)
def test_an_epoch_of_a_given_length_is_cut_into_equal_parts(length, expected):
    """Keras runs whole executions: 10 steps in groups of 3 would become 12."""
    assert steps(training(steps_per_epoch=length, has_explicit_steps=True)) == expected


def test_a_given_length_that_cannot_be_cut_is_left_alone():
    words = "cannot be divided into equal executions"
    assert words in reason(CHAIN, training(steps_per_epoch=127, has_explicit_steps=True))
    assert steps(training(steps_per_epoch=127)) == 64


@pytest.mark.parametrize(("validated", "expected"), [(10, 10), (64, 64), (96, 48), (7, 7)])
def test_a_validation_of_given_length_is_cut_into_equal_parts(validated, expected):
    """It runs in executions of as many steps: 10 of them in groups of 64 would become 64."""
    assert steps(training(validation_steps=validated)) == expected


def test_both_lengths_count():
    given = {"steps_per_epoch": 100, "has_explicit_steps": True}
    assert steps(training(validation_steps=30, **given)) == 10
    words = "validation_steps=7 and steps_per_epoch=100 cannot be divided"
    assert words in reason(CHAIN, training(validation_steps=7, **given))


@pytest.mark.parametrize("data", ["tf.data", "numpy"])
def test_arrays_and_pipelines_alike(data):
    assert steps(training(data_kind=data)) == 64


def test_it_is_never_predicted_to_be_faster_than_the_input():
    supplied = training(ceilings={"supply": 1.5 * 32 / 0.002})
    assert proposal(CHAIN, supplied).predicted == pytest.approx(1.5)


def test_an_input_that_is_the_brake_makes_it_useless():
    assert "predicted gain" in reason(CHAIN, training(ceilings={"supply": 32 / 0.002}))


def test_it_may_fall_back_on_rounding():
    assert (CHAIN.guarantee, CHAIN.fallback_guarantee) == ("exact", "rounding")


def test_long_steps_are_left_alone():
    assert "takes so long" in reason(CHAIN, training(0.3))


def test_an_epoch_of_one_step_has_nothing_to_chain():
    assert "one step only" in reason(CHAIN, SITUATIONS["one step an epoch"])


def test_a_busy_device_is_left_alone():
    assert "predicted gain" in reason(CHAIN, training(shares=COMPUTING))


def test_a_value_of_the_user_s_own_is_kept():
    assert "the script sets steps_per_execution=8" in reason(CHAIN, training(steps_per_execution=8))


def test_callbacks_that_see_every_batch_forbid_it():
    hooks = ("TerminateOnNaN", "Mine")
    assert "TerminateOnNaN, Mine" in reason(CHAIN, training(batch_callbacks=hooks))


def test_an_unknown_length_forbids_it():
    assert "length of the dataset is unknown" in reason(CHAIN, SITUATIONS["unknown length"])


@pytest.mark.parametrize("data", ["pydataset", "generator"])
def test_python_loaders_are_asked_for_each_batch_anyway(data):
    assert data in reason(CHAIN, training(data_kind=data))


@pytest.mark.parametrize(
    ("situation", "words"),
    [("custom loop", "your own code"), ("eager", "run_eagerly"), ("distributed", "tf.distribute")],
)
def test_a_step_that_is_not_keras_s_to_change_is_left_alone(situation, words):
    assert words in reason(CHAIN, SITUATIONS[situation])
