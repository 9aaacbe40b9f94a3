from __future__ import annotations

import keras
import pytest
from keras import layers

from uncork.step import sensitive_layers


def functional(make):
    given = keras.Input((6,), name="given")
    return keras.Model(given, make(given))


def two_outputs(given):
    hidden = layers.Dense(4, name="hidden")(given)
    return {
        "one": layers.Dense(1, name="one")(hidden),
        "two": layers.Reshape((3, 1), name="two")(layers.Dense(3, name="before")(hidden)),
    }


def around_a_model(given):
    inner = keras.Sequential([layers.Dense(4, name="first"), layers.Dense(2, name="second")])
    return layers.Activation("softmax", name="soft")(inner(given))


def joined(given):
    left, right = (layers.Dense(2, name=name)(given) for name in ("left", "right"))
    return layers.Add(name="sum")([left, right])


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (functional(two_outputs), {"one", "two", "before"}),
        (functional(around_a_model), {"soft", "second"}),
        (functional(joined), {"sum", "left", "right"}),
        (
            keras.Sequential([keras.Input((6,)), layers.Dense(4), layers.Dense(2, name="last")]),
            {"last"},
        ),
        (
            keras.Sequential([
                keras.Input((6,)),
                layers.BatchNormalization(name="norm"),
                layers.Dense(2, name="last"),
                layers.Flatten(name="flat"),
            ]),
            {"last", "flat", "norm"},
        ),
    ],
    ids=["two outputs", "a model inside", "joined", "sequential", "with a norm"],
)  # fmt: skip
def test_what_gives_the_outputs_and_what_normalizes(model, expected):
    assert set(sensitive_layers(model)) == expected
    assert len(sensitive_layers(model)) == len(expected)


def test_of_a_call_of_the_users_own_nobody_knows_what_it_casts():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(1)

        def call(self, x):
            return self.dense(x)

    assert sensitive_layers(Own()) == ()
