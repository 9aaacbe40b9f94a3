"""Trainings that a Python generator feeds."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import uncork
from uncork.core.errors import WrongUse
from uncork.core.step_edit import FusedUpdates
from uncork.engine.fit_subject import FitSubject
from uncork.step import read_on


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
    arguments = read_on({"x": generator, "epochs": 2, **given})
    return FitSubject(model, arguments, 0, "train.py:9", str(tmp_path))


def test_its_steps_are_run_and_proved_and_the_model_is_given_back(tmp_path):
    model = trained()
    before = [v.numpy().copy() for v in model.variables]
    tried = subject(model, batches(), tmp_path, steps_per_epoch=20)
    work = tried.workload
    assert (work.data, work.element_spec, work.batch_size) == ("generator", "generator", 8)
    assert (work.steps_per_epoch, work.steps_given) == (20, True)
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
