"""``uncork tune`` and ``run`` of models whose first layers run in the input pipeline."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from records import STEPS, plan, workload_diagnosis
from uncork.capture.base.listener import FitCall
from uncork.core.base.errors import PlanRefused
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan
from uncork.core.edits.pipeline import AutotuneOff
from uncork.core.edits.step import LayersInInput, StepsPerExecution
from uncork.engine.apply.plan_listener import PlanListener
from uncork.engine.fit.fit_subject import FitSubject

WORDS = ["a b c", "b c d", "d d a", "e f"] * 8
LABELS = np.arange(32, dtype="float32").reshape(-1, 1) % 2
KEPT = next(step for step in STEPS if step.outcome == "kept")


def data() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((WORDS, LABELS)).shuffle(32, seed=3).batch(4)


def judged() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((WORDS[:9], LABELS[:9])).batch(4)


def call(*noise: Any, x: Any = None, **arguments: Any) -> FitCall:
    keras.utils.set_random_seed(1)
    count = layers.TextVectorization(9, output_mode="count", pad_to_max_tokens=True, name="count")
    count.adapt(WORDS)
    last = layers.Dense(1, name="last")
    scale = layers.Rescaling(0.5, name="scale")
    model = keras.Sequential([keras.Input((), dtype="string"), count, scale, *noise, last])
    model.compile("adam", "mse", metrics=["mae"])
    model.optimizer.build(model.trainable_variables)
    given = {"x": data() if x is None else x, "verbose": 0, "epochs": 2, **arguments}
    bound = inspect.signature(model.fit).bind(**given)
    bound.apply_defaults()
    return FitCall(
        0, "train.py:9", model, dict(bound.arguments), functools.partial(keras.Model.fit, model)
    )


def planned(made: FitCall, tmp_path: Any, *others: Any) -> Plan:
    subject = FitSubject(made.model, made.arguments, 0, made.at, str(tmp_path))
    work = subject.workload
    first = LayersInInput(
        layer_names=work.preprocessing_layers, is_random=work.is_preprocessing_random
    )
    edits = subject.original.with_edits((*others, first)).pipeline_edits
    step = tuple(edit for edit in others if not isinstance(edit, AutotuneOff))
    subject.restore()
    kept = replace(KEPT, edits=(*edits, first, *step))
    return plan(before=workload_diagnosis(workload=work, stages=()), steps=(kept,))


def weights(made: FitCall) -> list[Any]:
    return [np.asarray(value) for value in made.model.get_weights()]


@pytest.mark.every(2, first=1)
@pytest.mark.parametrize(
    "others", [(), (AutotuneOff(expected_digest=""), StepsPerExecution(steps=3))]
)
def test_weights_and_history_are_those_of_the_script(others: Any, tmp_path: Any) -> None:
    plain = call(validation_data=judged())
    history = plain.original(**plain.arguments).history
    made = call(validation_data=judged())
    found = PlanListener(planned(made, tmp_path, *others), strict=True).fit(made).history
    assert found == history
    assert all(np.array_equal(a, b) for a, b in zip(weights(made), weights(plain), strict=True))


def test_what_draws_is_told_to_be_resampled(tmp_path: Any) -> None:
    made = call(layers.GaussianNoise(0.1, seed=2, name="noise"))
    subject = FitSubject(made.model, made.arguments, 0, made.at, str(tmp_path))
    work = subject.workload
    assert (work.preprocessing_layers, work.is_preprocessing_random) == (
        ("count", "scale", "noise"),
        True,
    )
    first = LayersInInput(layer_names=work.preprocessing_layers, is_random=True)
    proof = subject.prove_step(subject.original.with_step_edits((first,)), "exact", 30.0)
    subject.restore()
    assert (proof.passed, proof.kind) == (True, "resampled")
    assert "are ahead of the training" in proof.detail


def test_what_draws_nothing_is_exact(tmp_path: Any) -> None:
    made = call()
    subject = FitSubject(made.model, made.arguments, 0, made.at, str(tmp_path))
    first = LayersInInput(layer_names=("count", "scale"))
    proof = subject.prove_step(subject.original.with_step_edits((first,)), "exact", 30.0)
    subject.restore()
    assert (proof.passed, proof.kind) == (True, "exact")


def test_another_beginning_is_refused_aloud(tmp_path: Any, capsys: Any) -> None:
    made = planned(call(), tmp_path)
    other = call(layers.GaussianNoise(0.1, name="noise"))
    other.model.layers[0].name = "another"
    with pytest.raises(PlanRefused, match="starts with another"):
        PlanListener(made, strict=True).fit(other)
    PlanListener(made, strict=False).fit(other)
    assert "trains unmodified, without the plan" in capsys.readouterr().err


def test_classes_that_are_weighted_are_refused_aloud(tmp_path: Any) -> None:
    made = planned(call(), tmp_path)
    with pytest.raises(PlanRefused, match="class_weight is set"):
        PlanListener(made, strict=True).fit(call(class_weight={0: 1.0, 1: 3.0}))
