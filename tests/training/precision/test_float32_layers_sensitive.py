from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import layers

from uncork.core.base.errors import EditRefused
from uncork.core.base.record import replace
from uncork.core.edits.step import DtypePolicy
from uncork.training.precision.dtype_policies import switch_policy
from uncork.training.precision.float32_layers import precision_sensitive_layer_names
from uncork.training.run.edit_checks import check_edits


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
    assert set(precision_sensitive_layer_names(model)) == expected
    assert len(precision_sensitive_layer_names(model)) == len(expected)


class Block(layers.Layer):
    """A ``call`` of the user's own, which adds what a normalization gives."""

    def __init__(self):
        super().__init__(name="block")
        self.norm, self.dense = layers.LayerNormalization(name="inner"), layers.Dense(6)
        self.last = keras.Sequential([layers.Dense(6), layers.LayerNormalization(name="deeper")])

    def call(self, x):
        return x + self.last(self.dense(self.norm(x)))


def test_what_a_last_layer_holds_stays_with_it():
    last = layers.TimeDistributed(layers.Dense(2, name="within"), name="last")
    model = keras.Sequential([keras.Input((4, 6)), Block(), last])
    assert set(precision_sensitive_layer_names(model)) == {"last", "within"}


def test_a_layer_that_stands_in_another_model_too_leads_nowhere_else():
    flat = layers.Flatten(name="flat")
    other = functional(lambda given: flat(layers.Dense(3, name="other")(given)))
    ours = functional(lambda given: flat(layers.Dense(2, name="ours")(given)))
    assert set(precision_sensitive_layer_names(ours)) == {"flat", "ours"}
    assert set(precision_sensitive_layer_names(other)) == {"flat", "other"}


def model_of(units):
    made = [layers.Dense(unit) for unit in units]
    return keras.Sequential([keras.Input((6,)), *made, layers.Dense(1)])


def test_in_another_model_others_of_those_names_are_not_meant():
    """Keras counts names: what was the output's may be a hidden layer's."""
    first = model_of([4])
    edit = DtypePolicy(
        policy="mixed_bfloat16",
        float32_layers=precision_sensitive_layer_names(first),
        is_precision_conservative=True,
    )
    keras.utils.clear_session()
    layers.Dense(3)
    second = model_of([4])
    check_edits(second, (edit,))
    switch_policy(second, edit)
    assert [each.compute_dtype for each in second.layers] == ["bfloat16", "float32"]
    third = keras.Sequential([keras.Input((6,)), layers.BatchNormalization(), layers.Dense(1)])
    with pytest.raises(EditRefused, match="2 layers of the model would stay"):
        check_edits(third, (edit,))


def test_of_a_model_without_weights_they_are_known_by_name():
    """Which of its layers give the outputs shows when they have some."""
    made = keras.Sequential([layers.Dense(4, name="hidden"), layers.Dense(2, name="last")])
    made.compile("sgd", "mse")
    edit = DtypePolicy(
        policy="mixed_bfloat16", float32_layers=("last",), is_precision_conservative=True
    )
    check_edits(made, (edit,))
    switch_policy(made, edit)
    assert [each.compute_dtype for each in made.layers] == ["bfloat16", "float32"]
    made.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    assert [each.compute_dtype for each in made.layers] == ["bfloat16", "float32"]
    with pytest.raises(EditRefused, match=r"no weights yet .* and no layer has the name output"):
        check_edits(
            keras.Sequential([layers.Dense(2)]), (replace(edit, float32_layers=("output",)),)
        )


def test_of_a_call_of_the_users_own_nobody_knows_what_it_casts():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(1)

        def call(self, x):
            return self.dense(x)

    assert precision_sensitive_layer_names(Own()) == ()
