"""Models whose own step calls their layers one by one: they have no call, or another one."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import uncork
from uncork.core.base.errors import WrongUse
from uncork.training.state.model_build import build_model

X = np.random.default_rng(1).normal(size=(64, 4)).astype("float32")


class Autoencoder(keras.Model):
    """As keras.io writes them."""

    def __init__(self, parts):
        super().__init__()
        self.encoder, self.decoder = parts
        self.loss_tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.loss_tracker]

    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.decoder(self.encoder(data)) - data) ** 2)
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}


def parts(*, built):
    first = [keras.Input((4,))] if built else []
    last = [keras.Input((2,))] if built else []
    return (
        keras.Sequential([*first, keras.layers.Dense(2)]),
        keras.Sequential([*last, keras.layers.Dense(4)]),
    )


@pytest.mark.parametrize("built", [True, False])
def test_a_model_without_call_is_built_by_its_step(built):
    model = Autoencoder(parts(built=built))
    model.compile("adam")
    before = model.encoder.get_weights()
    build_model(model, tf.constant(X[:8]))
    assert all(layer.built for layer in (model.encoder, model.decoder))
    assert len(model.trainable_variables) == 4
    for ours, theirs in zip(model.encoder.get_weights(), before, strict=built):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.deep
def test_it_is_diagnosed():
    model = Autoencoder(parts(built=True))
    model.compile("adam")
    found = uncork.diagnose(
        model, tf.data.Dataset.from_tensor_slices(X).batch(8), budget=1.0, quiet=True
    )
    assert found.record.workloads[0].measurement.samples_per_s > 0


def test_one_whose_step_cannot_be_traced_either_is_refused():
    class Broken(Autoencoder):
        def train_step(self, data):
            raise ValueError("no such step")

    model = Broken(parts(built=False))
    model.compile("adam")
    with pytest.raises(WrongUse, match="fails on a batch"):
        build_model(model, tf.constant(X[:8]))
