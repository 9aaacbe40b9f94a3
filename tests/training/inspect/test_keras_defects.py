"""What Keras gets wrong is told of the trainings that meet it, and of no others."""

from __future__ import annotations

import gc
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.training.inspect import keras_defects
from uncork.training.inspect.keras_defects import find_fit_defects, find_loss_defects

K = keras.optimizers
FLOAT16 = "mixed_float16"
distils = pytest.mark.skipif(
    not hasattr(keras, "distillation"), reason="Keras before 3.12 has no distillation"
)


def names(made: Any, steps: int | None = 10, **arguments: Any) -> list[str]:
    return [defect.name for defect in find_fit_defects(made, arguments, steps)]


def model(optimizer: Any = "adam", dtype: str | None = None) -> Any:
    made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, dtype=dtype)])
    made.compile(optimizer, "mse")
    return made


def distiller(*losses: Any, regularizer: str | None = None, kind: Any = None) -> Any:
    def network(name: str) -> Any:
        inputs = keras.Input((4,))
        middle = keras.layers.Dense(3, name="middle", kernel_regularizer=regularizer)(inputs)
        return keras.Model(inputs, keras.layers.Dense(2)(middle), name=name)

    made = (kind or keras.distillation.Distiller)(network("teacher"), network("student"), losses)
    made.compile("adam", "mse")
    return made


def features() -> Any:
    return keras.distillation.FeatureDistillation("mse", "middle", "middle")


def test_a_sound_training_has_none() -> None:
    assert names(model()) == []
    assert names(model(K.SGD(K.schedules.CosineDecay(0.1, 10), clipnorm=1.0))) == []


def test_a_model_that_lost_its_loss_scaling(tmp_path: Any) -> None:
    keras.config.set_dtype_policy(FLOAT16)
    try:
        model().save(tmp_path / "half.keras")
    finally:
        keras.config.set_dtype_policy("float32")
    loaded = keras.models.load_model(tmp_path / "half.keras")
    assert not isinstance(loaded.optimizer, K.LossScaleOptimizer)
    assert names(loaded) == ["loss_scaling_lost"]


@pytest.mark.parametrize(
    "optimizer",
    [K.LossScaleOptimizer(K.Adam()), K.Adam(loss_scale_factor=128.0)],
    ids=["optimizer", "factor"],
)
def test_a_loss_that_is_scaled_is_no_defect(optimizer: Any) -> None:
    assert names(model(optimizer, FLOAT16)) == []


def test_a_schedule_and_gradients_that_are_accumulated() -> None:
    rate = K.schedules.CosineDecay(0.1, 10)
    made = model(K.SGD(rate, gradient_accumulation_steps=4))
    assert names(made, steps=8, epochs=3) == ["schedule_runs_ahead"]
    assert names(made, steps=10, epochs=3) == ["schedule_runs_ahead", "gradients_left_over"]
    assert names(made, steps=None) == ["schedule_runs_ahead"]
    assert names(model(K.SGD(0.1, gradient_accumulation_steps=4)), steps=8) == []


@pytest.mark.parametrize(
    "rate",
    [
        K.schedules.CosineDecay(0.1, 24),
        K.schedules.CosineDecay(0.0, 20, warmup_target=0.1, warmup_steps=4),
        K.schedules.PiecewiseConstantDecay([8, 16], [0.1, 0.01, 0.001]),
        K.schedules.PiecewiseConstantDecay(np.array([8, 16]), [0.1, 0.01, 0.001]),
    ],
)
def test_a_schedule_that_is_sized_in_batches_ends_with_the_training(rate: Any) -> None:
    """As long as Keras counts: four times as long, it would hardly begin to fall."""
    assert names(model(K.SGD(rate, gradient_accumulation_steps=4)), steps=8, epochs=3) == []


def test_a_schedule_does_run_ahead() -> None:
    made = model(K.SGD(K.schedules.PiecewiseConstantDecay([5], [1.0, 0.0]),
                       gradient_accumulation_steps=4))  # fmt: skip
    made.fit(np.ones((64, 4)), np.ones((64, 2)), batch_size=8, verbose=0)
    assert int(made.optimizer.iterations) == 2  # updates, of five at the first rate
    assert float(made.optimizer.learning_rate) == 0.0


def test_what_replicas_do_each_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """On two replicas that are not there: a strategy needs its devices before TensorFlow starts."""
    monkeypatch.setattr(keras_defects, "_replicas", lambda _: 2)
    assert names(model(K.SGD(0.1, clipnorm=1.0))) == ["clipped_on_each_replica"]
    assert names(model(K.LossScaleOptimizer(K.SGD()))) == ["loss_scale_of_one_replica"]


@distils
def test_a_student_that_runs_twice() -> None:
    (found,) = find_fit_defects(distiller(features()), {}, 10)
    assert found.name == "student_runs_twice"
    assert found.has_double_backward


@distils
def test_a_distiller_that_was_mended() -> None:
    class Mended(keras.distillation.Distiller):
        def _extract_all_student_features(self, x: Any, y_pred: Any) -> Any:
            return self._outputs

    assert names(distiller(features(), kind=Mended)) == []


@distils
def test_what_a_distiller_leaves_out() -> None:
    sound = keras.distillation.LogitsDistillation(loss=keras.losses.KLDivergence())
    made = distiller(sound, regularizer="l2")
    assert names(made, class_weight={0: 2.0}) == [
        "regularization_dropped",
        "sample_weights_dropped",
    ]


@distils
def test_a_divergence_of_raw_logits_anywhere() -> None:
    gc.collect()
    sound = keras.distillation.LogitsDistillation(loss=keras.losses.KLDivergence())
    assert find_loss_defects() == ()
    spoilt = keras.distillation.LogitsDistillation()
    (found,) = find_loss_defects()
    assert found.name == "divergence_of_logits"
    del sound, spoilt


@distils
def test_a_raw_divergence_has_no_gradient_below_zero() -> None:
    teacher, student = tf.constant([[2.0, -3.0]]), tf.Variable([[-1.0, -2.0]])
    with tf.GradientTape() as tape:
        loss = keras.distillation.LogitsDistillation().compute_loss(teacher, student)
    assert not np.any(tape.gradient(loss, student))


@distils
def test_of_a_later_keras_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras_defects.keras, "__version__", "3.16.0")
    assert names(distiller(features())) == []
    assert find_loss_defects() == ()


def test_epochs_that_are_over_leave_nothing_over() -> None:
    made = model(K.SGD(0.1, gradient_accumulation_steps=4))
    assert names(made, steps=2, epochs=3, initial_epoch=1) == []
    assert names(made, steps=2, epochs=4, initial_epoch=1) == ["gradients_left_over"]


def test_of_an_optimizer_that_scales_the_loss_the_one_inside_counts() -> None:
    """Keras puts the other around it where a model computes in float16."""
    inner = K.SGD(K.schedules.ExponentialDecay(0.1, 50, 0.9), gradient_accumulation_steps=3)
    scaled = model(K.LossScaleOptimizer(inner), dtype=FLOAT16)
    assert names(scaled) == ["schedule_runs_ahead", "gradients_left_over"]


@distils
def test_weights_that_come_with_the_data_are_dropped_too() -> None:
    made = distiller(keras.distillation.LogitsDistillation(loss=keras.losses.KLDivergence()))
    batch = (np.ones((2, 4)), np.ones((2, 2)), np.ones(2))
    found = [each.name for each in find_fit_defects(made, {}, 10, batch)]
    assert "sample_weights_dropped" in found
    assert "sample_weights_dropped" not in [
        d.name for d in find_fit_defects(made, {}, 10, batch[:2])
    ]
