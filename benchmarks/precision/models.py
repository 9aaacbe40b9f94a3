"""Small models of five kinds that learn something, and one that float16 breaks; a seed for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import keras
import numpy as np
from keras import layers

from uncork.training.input.feed import Feed

BATCH: Final = 32
_BATCHES: Final = 64  # as many as a proof holds
_ROWS: Final = BATCH * _BATCHES
_CLASSES: Final = 10

Draw = np.random.Generator
Made = tuple[Any, Any, Any]  # a model, its inputs, its labels


def mlp(draw: Draw) -> Made:
    """Three dense layers with dropout; labels are told by another such model, with noise."""
    x = _normal(draw, 32)
    hidden = np.maximum(x @ draw.normal(size=(32, 24)), 0)
    y = np.argmax(hidden @ draw.normal(size=(24, _CLASSES)) + 3 * _normal(draw, _CLASSES), axis=1)
    model = keras.Sequential(
        [
            keras.Input((32,)),
            layers.Dense(64, "relu"),
            layers.Dropout(0.2, seed=1),
            layers.Dense(64, "relu"),
            layers.Dense(_CLASSES),
        ]
    )
    model.compile(keras.optimizers.Adam(1e-3), _classes())
    return model, x, y


def cnn(draw: Draw) -> Made:
    """Two convolutions with batch normalization; each class has a pattern, shifted and noisy."""
    y = draw.integers(0, _CLASSES, _ROWS)
    patterns = draw.normal(size=(_CLASSES, 12, 12))
    shifts = draw.integers(0, 3, _ROWS)
    x = np.stack([np.roll(patterns[c], s, axis=1) for c, s in zip(y, shifts, strict=True)])
    x = (x + 2 * draw.normal(size=x.shape))[..., None].astype("float32")
    model = keras.Sequential([keras.Input((12, 12, 1))])
    for width in (8, 16):
        model.add(layers.Conv2D(width, 3, strides=2, use_bias=False))
        model.add(layers.BatchNormalization())
        model.add(layers.Activation("relu"))
    model.add(layers.Flatten())
    model.add(layers.Dense(_CLASSES))
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), _classes())
    return model, x, y


def lstm(draw: Draw) -> Made:
    """One recurrent layer over waves in noise, whose frequency is the class."""
    y = draw.integers(0, _CLASSES, _ROWS)
    t = np.arange(8)[None, :, None] + draw.uniform(0, 3, (_ROWS, 1, 1))
    mixed = draw.normal(size=(1, 1, 6))
    x = np.sin(t * (0.3 + 0.2 * y[:, None, None])) * mixed + 0.5 * draw.normal(size=(_ROWS, 8, 6))
    model = keras.Sequential([keras.Input((8, 6)), layers.LSTM(16), layers.Dense(_CLASSES)])
    model.compile(keras.optimizers.RMSprop(3e-3), _classes())
    return model, x.astype("float32"), y


def transformer(draw: Draw) -> Made:
    """One block of attention, with dropout, over words, some of which are likelier in one class."""
    y = draw.integers(0, 2, _ROWS)
    often = 1.0 / np.arange(1, 201)
    chances = [often * np.where(np.arange(200) % 2 == label, 2.5, 1.0) for label in (0, 1)]
    x = np.stack([draw.choice(200, 16, p=chances[label] / chances[label].sum()) for label in y])
    words = keras.Input((16,), dtype="int32")
    a = layers.Embedding(200, 32)(words)
    a = layers.LayerNormalization()(a + layers.MultiHeadAttention(2, 16, dropout=0.1, seed=1)(a, a))
    a = layers.LayerNormalization()(a + layers.Dense(32)(layers.Dense(64, "relu")(a)))
    model = keras.Model(words, layers.Dense(2)(layers.GlobalAveragePooling1D()(a)))
    model.compile(keras.optimizers.Adam(1e-3), _classes())
    return model, x.astype("int32"), y


def autoencoder(draw: Draw) -> Made:
    """A table of 24 columns that follow from six, through a bottleneck of six."""
    x = np.tanh(_normal(draw, 6) @ draw.normal(size=(6, 24))) + 0.1 * _normal(draw, 24)
    parts = [layers.Dense(48, "tanh"), layers.Dense(6), layers.Dense(48, "tanh"), layers.Dense(24)]
    model = keras.Sequential([keras.Input((24,)), *parts])
    model.compile(keras.optimizers.Adam(2e-3), "mse")
    return model, x.astype("float32"), x.astype("float32")


def raw_table(draw: Draw) -> Made:
    """Prices from columns in their own units: more than float16 can hold, normalized by a layer."""
    x = _normal(draw, 8)
    y = x @ draw.normal(size=(8, 1)) + 0.3 * _normal(draw, 1)
    units = np.array([1, 10, 1e3, 1e4, 3e4, 1e5, 1, 1], "float32")
    hidden = [layers.BatchNormalization(), layers.Dense(32, "relu"), layers.Dense(1)]
    model = keras.Sequential([keras.Input((8,)), *hidden])
    model.compile(keras.optimizers.Adam(3e-3), "mse")
    return model, x * units, y.astype("float32")


MODELS: Final[dict[str, Callable[[Draw], Made]]] = {
    "MLP": mlp,
    "CNN": cnn,
    "LSTM": lstm,
    "transformer": transformer,
    "autoencoder": autoencoder,
}
# What float16 breaks, whatever else it may do; bfloat16 holds numbers as large as float32 does.
PLANTED: Final[dict[str, Callable[[Draw], Made]]] = {"raw table": raw_table}


def compiled(name: str, seed: int) -> tuple[Any, Feed]:
    """The model, its weights and its data drawn by the seed."""
    keras.utils.set_random_seed(seed)
    model, x, y = {**MODELS, **PLANTED}[name](np.random.default_rng(seed))
    return model, Feed(x=x, y=y, batch_size=BATCH, shuffle=False)


def _normal(draw: Draw, width: int) -> Any:
    return draw.normal(size=(_ROWS, width)).astype("float32")


def _classes() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
