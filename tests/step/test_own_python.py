from __future__ import annotations

import keras
import pytest

from uncork.step.own_python import own_python


class Own(keras.layers.Layer):
    def call(self, x):
        return x


class OwnModel(keras.Sequential):
    pass


class OwnAdam(keras.optimizers.Adam):
    pass


def own_loss(y, y_pred):
    return keras.ops.mean((y - y_pred) ** 2)


def model(*layers, kind=keras.Sequential, **compiled):
    made = kind([keras.Input((2,)), *layers, keras.layers.Dense(1)])
    made.compile(**{"optimizer": "adam", "loss": "mse", "run_eagerly": True, **compiled})
    return made


@pytest.mark.parametrize(
    "made",
    [
        model,
        lambda: model(keras.layers.Dropout(0.5), keras.layers.BatchNormalization()),
        lambda: model(loss=keras.losses.Huber(), metrics=["mae", keras.metrics.AUC()]),
        lambda: model(keras.Sequential([keras.layers.Dense(2, activation="relu")])),
    ],
)
def test_keras_own_code_alone(made):
    assert own_python(made()) == ""


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (lambda: model(Own(name="mine")), "mine"),
        (lambda: model(keras.Sequential([keras.Input((2,)), Own(name="inner")])), "inner"),
        (lambda: model(kind=OwnModel), "own_model"),
        (lambda: model(keras.layers.Lambda(lambda x: x, name="by_hand")), "by_hand"),
        (lambda: model(keras.layers.Dense(2, activation=lambda x: x, name="bent")), "bent"),
        (lambda: model(optimizer=OwnAdam()), "the optimizer"),
        (lambda: model(loss=own_loss), "the loss"),
        (lambda: model(loss=[own_loss]), "the loss"),
        (lambda: model(metrics=["mae", own_loss]), "a metric"),
    ],
)
def test_code_of_the_users_is_named(made, named):
    assert own_python(made()).startswith(f"{named}")
    assert own_python(made()).endswith("runs Python code of your own")
