"""Trainings that a Python generator feeds."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import uncork
from uncork.capture.base.listener import FitCall
from uncork.capture.base.stop import StopScript
from uncork.core.base.errors import NothingToMeasure, WrongUse
from uncork.core.base.journal import Journal
from uncork.core.documents.job import DiagnoseJob, JobResult
from uncork.core.edits.step import FusedUpdates
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.worker.job_listener import JobListener
from uncork.training.input.generator_stream import share_generator


def trained():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def batches():
    rng = np.random.default_rng(0)
    while True:
        rows = rng.normal(size=(8, 4)).astype("float32")
        yield rows, rows.sum(1)


def few():
    yield from (next(made) for made in [batches()] for _ in range(5))


def subject(model, generator, tmp_path, **given):
    arguments = share_generator({"x": generator, "epochs": 2, **given})
    return FitSubject(model, arguments, 0, "train.py:9", str(tmp_path))


def test_its_steps_are_run_and_proved_and_the_model_is_given_back(tmp_path):
    model = trained()
    before = [v.numpy().copy() for v in model.variables]
    tried = subject(model, batches(), tmp_path, steps_per_epoch=20)
    work = tried.workload
    assert (work.data_kind, work.element_spec, work.batch_size) == ("generator", "generator", 8)
    assert (work.steps_per_epoch, work.has_explicit_steps) == (20, True)
    runner = tried.runner(tried.original)
    runner.prime()
    assert runner.block(0.05).steps > 0
    (stage,) = tried.loader_stages(tried.original)
    assert stage.name == "batches"
    edited = tried.original.with_step_edits((FusedUpdates(),))
    assert tried.prove_step(edited, "rounding", 20.0).passed
    tried.restore()
    after = [v.numpy() for v in model.variables]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_one_with_an_end_is_read_as_often_as_it_takes(tmp_path):
    tried = subject(trained(), few(), tmp_path)
    assert tried.workload.steps_per_epoch is None
    runner = tried.runner(tried.original)
    runner.prime()
    assert runner.block(0.1).steps > 5
    tried.restore()


def test_where_the_process_goes_on_it_is_left_alone():
    generator = batches()
    first = next(batches())
    with pytest.raises(WrongUse, match="can be read only once"):
        uncork.diagnose(trained(), generator, epochs=2, steps_per_epoch=5)
    np.testing.assert_array_equal(next(generator)[0], first[0])


class Looking(JobListener):
    """Runs some steps of whatever it is given."""

    accepts_any_loop = True

    def run_on(self, subject, machine):
        self.seen = subject
        runner = subject.runner(subject.original)
        runner.prime()
        runner.block(0.2)
        return JobResult(machine=machine)


def begun():
    """It has two batches left, and nobody can begin it again."""
    made = few()
    for _ in range(3):
        next(made)
    return made


@pytest.fixture
def trial(tmp_path, monkeypatch):
    monkeypatch.setattr("uncork.engine.worker.job_listener.does_real_work", lambda brief: True)
    return Looking(DiagnoseJob(), Journal(), str(tmp_path))


def call_of(model, generator, **given):
    arguments = {"x": generator, "epochs": 2, "initial_epoch": 0, **given}
    return FitCall(0, "train.py:9", model, arguments, model.fit)


def test_a_script_s_generator_is_read_by_whoever_looks(trial):
    with pytest.raises(StopScript):
        trial.fit(call_of(trained(), batches(), steps_per_epoch=20))
    assert trial.seen.workload.data_kind == "generator"


def test_so_is_one_of_many_small_fits(trial):
    model, generator = trained(), batches()

    def script():
        for _ in range(9):
            trial.fit(call_of(model, generator, steps_per_epoch=2, epochs=1, verbose=0))

    with pytest.raises(StopScript):
        script()
    assert trial.seen.workload.is_fit_in_loop


def test_that_it_has_ended_for_good_is_told_as_such(trial):
    with pytest.raises(NothingToMeasure, match="'few' ended after"):
        trial.fit(call_of(trained(), begun(), steps_per_epoch=20))


def test_an_error_of_the_user_s_stays_the_user_s(trial):
    def broken():
        yield from (next(made) for made in [batches()] for _ in range(20))
        raise OSError("no such picture")

    with pytest.raises(tf.errors.UnknownError, match="no such picture"):
        trial.fit(call_of(trained(), broken(), steps_per_epoch=20))


def test_nothing_more_is_tried_of_one_that_has_ended(tmp_path):
    def some():
        yield from (next(made) for made in [batches()] for _ in range(40))

    generator = some()
    next(generator)
    tried = subject(trained(), generator, tmp_path)
    assert tried.end_of_data_reason() == ""
    with pytest.raises((NothingToMeasure, tf.errors.OpError)):
        tried.runner(tried.original).block(0.5)
    assert "ended after 39 batches" in tried.end_of_data_reason()
