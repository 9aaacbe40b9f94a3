"""Small models and data of every form that ``fit`` takes."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

N, BATCH = 22, 4  # the last batch is short

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N, 6)).astype(np.float32)
Y = _RNG.normal(size=(N, 2)).astype(np.float32)


def mlp(*between: Any, compiled: bool = True, **kwargs: Any) -> keras.Model:
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, activation="relu"), *between, layers.Dense(2)]
    )
    if compiled:
        model.compile(**{"optimizer": "adam", "loss": "mse", "metrics": ["mae"], **kwargs})
        if model.built:  # of an optimizer that is not, Keras traces the step twice
            model.optimizer.build(model.trainable_variables)
    return model


def two_outputs() -> keras.Model:
    inputs = {"a": keras.Input((6,), name="a"), "b": keras.Input((6,), name="b")}
    joined = keras.layers.Concatenate()([inputs["a"], inputs["b"]])
    outputs = {name: keras.layers.Dense(2, name=name)(joined) for name in ("one", "two")}
    model = keras.Model(inputs, outputs)
    model.compile("sgd", loss={"one": "mse", "two": "mae"})
    return model


def classifier() -> keras.Model:
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


class Subclassed(keras.Model):
    """Has no weights before its first batch."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = keras.layers.Dense(8, activation="relu")
        self.norm = keras.layers.BatchNormalization()
        self.head = keras.layers.Dense(2)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.head(self.norm(self.hidden(x), training=training))


class OwnStep(Subclassed):
    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        variables = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, variables), variables)
        return {"loss": loss}


class Pages(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return X[index * BATCH :][:BATCH], Y[index * BATCH :][:BATCH]


def dataset() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH)
