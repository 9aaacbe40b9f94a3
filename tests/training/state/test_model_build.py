from __future__ import annotations

import keras
import numpy as np
import pytest

from training.models import OwnStep, Subclassed, X, Y, dataset, mlp
from uncork.core.base.errors import WrongUse
from uncork.training.state.model_build import build_model
from uncork.training.state.snapshot import Snapshot, training_variables

BATCH = next(iter(dataset()))


@pytest.mark.parametrize("kind", [Subclassed, OwnStep])
def test_a_subclassed_model_gets_its_weights(kind):
    model = kind()
    model.compile("adam", "mse", metrics=["mae"])
    build_model(model, BATCH)
    assert all(layer.built for layer in model._flatten_layers())
    assert model.count_params() > 0


def test_a_sequential_model_without_input_gets_its_weights():
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(2)])
    model.compile("adam", "mse")
    build_model(model, BATCH)
    assert model.layers[0].kernel.shape == (6, 3)


def test_a_built_model_stays_as_it_is():
    model = mlp(keras.layers.BatchNormalization())
    before = [w.copy() for w in model.get_weights()]
    build_model(model, BATCH)
    for ours, held in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, held)


@pytest.mark.parametrize("kind", [mlp, lambda: compiled(Subclassed())])
def test_training_makes_no_variable_that_a_snapshot_does_not_know(kind):
    model = kind()
    build_model(model, BATCH)
    Snapshot(model)
    known = {id(v) for v in training_variables(model)}
    model.fit(X, Y, verbose=0)
    assert {id(v) for v in training_variables(model)} == known


def compiled(model):
    model.compile("adam", "mse", metrics=["mae"])
    return model


def test_a_model_that_was_never_compiled_is_called_so():
    with pytest.raises(WrongUse, match="does not compile") as caught:
        build_model(mlp(compiled=False), BATCH)
    assert "model.compile" in caught.value.remedy


def test_data_that_does_not_fit_the_model_is_called_so():
    model = compiled(Subclassed())
    with pytest.raises(WrongUse, match="fails on a batch"):
        build_model(model, ("text", Y))
