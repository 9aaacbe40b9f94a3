"""Python in a map whose answers are kept: proved, and put in force by a plan."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import uncork
from plan_files import made_here
from records import STEPS, plan, workload_diagnosis
from uncork.core.base.errors import PlanRefused
from uncork.core.base.record import replace
from uncork.core.documents.plan_file import parse_plan, serialize_plan
from uncork.core.edits.pipeline import PyFunctionCache
from uncork.engine.fit.fit_subject import FitSubject
from uncork.pipeline.ir.python_functions import python_digest
from uncork.verify.provers.pipeline import PipelineProver

SETTINGS = {"sign": np.float32(1)}
CALLS: list[int] = []


def rows(number):
    draw = np.random.default_rng(int(number))
    return draw.normal(size=5).astype("float32") * SETTINGS["sign"]


def rarely(number):
    return rows(number) + np.float32(np.random.normal() if number == 17 else 0)


def examples(function=rows):
    numbers = tf.data.Dataset.range(40).shuffle(40, seed=2)

    def example(number):
        features = tf.ensure_shape(tf.numpy_function(function, [number], tf.float32), [5])
        return features, features[:1]

    return numbers.map(example, num_parallel_calls=tf.data.AUTOTUNE).batch(8)


def trained():
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def subject(tmp_path, function=rows):
    given = {"x": examples(function), "epochs": 3}
    return FitSubject(trained(), given, 0, "train.py:9", str(tmp_path))


def version(one):
    pipeline = one.original.pipeline
    code = python_digest(pipeline.stages[2].functions[0])
    edit = PyFunctionCache(
        stage=2, expected_digest=pipeline.digest, size_bytes=1 << 16, code_digest=code
    )
    return one.original.with_pipeline_edits((edit,))


@pytest.fixture
def made(tmp_path):
    one = subject(tmp_path)
    kept = next(step for step in STEPS if step.outcome == "kept")
    made = plan(
        before=workload_diagnosis(workload=one.workload, stages=()),
        after=None,
        steps=(replace(kept, edits=version(one).pipeline_edits, guarantee="exact"),),
    )
    return parse_plan(serialize_plan(made_here(made)))


@pytest.mark.deep
def test_kept_answers_are_proved_in_a_second_epoch(tmp_path):
    one = subject(tmp_path)
    runner = one.runner(version(one))
    runner.prime()
    proof = PipelineProver(one.original.pipeline).prove(version(one), "exact", 60.0)
    assert proof.passed, proof.detail
    assert "2 epochs" in proof.detail


def test_what_draws_is_asked_each_time_however_rare_it_is(tmp_path):
    one = subject(tmp_path, rarely)
    proof = PipelineProver(one.original.pipeline).prove(version(one), "exact", 60.0)
    assert proof.passed, proof.detail


@pytest.mark.every(2, first=1)
@pytest.mark.parametrize("changing", [False, True])
def test_a_plan_trains_to_the_same_weights(made, changing, monkeypatch):
    def fitted(fit, **settings):
        model = trained()
        monkeypatch.setitem(SETTINGS, "sign", np.float32(1))
        turn = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: SETTINGS.update(sign=-SETTINGS["sign"])
        )
        fit(model, examples(), epochs=3, verbose=0, callbacks=[turn] * changing, **settings)
        return model.get_weights()

    plain = fitted(lambda model, data, **rest: model.fit(data, **rest))
    ours = fitted(uncork.fit, plan=made)
    for one, other in zip(plain, ours, strict=True):
        np.testing.assert_array_equal(one, other)


def test_it_asks_once_for_each_element(made, monkeypatch):
    asked = []
    monkeypatch.setattr(np.random, "default_rng", _noting(np.random.default_rng, asked))
    uncork.fit(trained(), examples(), plan=made, epochs=3, verbose=0)
    assert sorted(asked) == list(range(40))


def _noting(function, asked):
    def noting(number):
        asked.append(number)
        return function(number)

    return noting


def test_steps_per_epoch_are_refused(made):
    with pytest.raises(PlanRefused, match="steps_per_epoch=5"):
        uncork.fit(trained(), examples(), plan=made, epochs=2, steps_per_epoch=5, verbose=0)


def test_other_code_is_refused(made):
    with pytest.raises(PlanRefused, match="digest"):
        uncork.fit(trained(), examples(rarely), plan=made, epochs=2, verbose=0)
