"""Trainings that an accelerator is bought for, each with a bottleneck that shows there alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf
from keras import layers

_SPARSE: Final = {"from_logits": True}


@dataclass(frozen=True)
class Training:
    """What ``uncork.tune`` takes.

    Attributes:
        model: Compiled.
        data: What ``fit`` takes.
        arguments: More of ``fit``'s.
    """

    model: Any
    data: Any
    arguments: dict[str, Any] = field(default_factory=dict)


def photographs() -> Training:
    """Pixels travel as floats to a network that needs less time than their copy."""
    side, rows, classes = 224, 2000, 10
    rng = np.random.default_rng(71)
    images = rng.integers(0, 256, (rows, side, side, 3), "uint8")
    labels = rng.integers(0, classes, rows)
    with tf.device("CPU"):
        data = tf.data.Dataset.from_tensor_slices((images, labels))
    data = data.shuffle(rows, seed=72).batch(128, drop_remainder=True)
    data = data.map(lambda x, y: (tf.cast(x, tf.float32), y), tf.data.AUTOTUNE)
    keras.utils.set_random_seed(73)
    model = keras.Sequential(
        [
            keras.Input((side, side, 3)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(32, 7, strides=4, activation="relu"),
            layers.Conv2D(64, 3, strides=2, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(classes),
        ]
    )
    return _compiled(
        model, keras.optimizers.SGD(0.05, momentum=0.9), data.prefetch(tf.data.AUTOTUNE)
    )


def residual_network() -> Training:
    """Small images, read from an array, to a residual network in float32."""
    rows, classes = 20_000, 10
    rng = np.random.default_rng(81)
    images = rng.integers(0, 256, (rows, 32, 32, 3), "uint8")
    labels = rng.integers(0, classes, rows)
    with tf.device("CPU"):
        data = tf.data.Dataset.from_tensor_slices((images, labels))
    data = data.shuffle(rows, seed=82).map(_as_floats).batch(256, drop_remainder=True)
    keras.utils.set_random_seed(83)
    x = read = keras.Input((32, 32, 3))
    x = layers.Conv2D(64, 3, padding="same")(x)
    for width, stride in ((64, 1), (128, 2), (256, 2)):
        x = _block(_block(x, width, stride), width, 1)
    model = keras.Model(read, layers.Dense(classes)(layers.GlobalAveragePooling2D()(x)))
    return _compiled(model, keras.optimizers.Adam(1e-3), data.prefetch(tf.data.AUTOTUNE))


def transformer() -> Training:
    """Six blocks of attention and dense layers in float32, over 256 words."""
    rows, words, length, width, classes = 4096, 8000, 256, 512, 4
    rng = np.random.default_rng(91)
    text = rng.integers(0, words, (rows, length)).astype("int32")
    labels = rng.integers(0, classes, rows)
    keras.utils.set_random_seed(92)
    read = keras.Input((length,), dtype="int32")
    x = layers.Embedding(words, width)(read)
    for _ in range(6):
        y = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(8, width // 8)(y, y)])
        y = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(width)(y)])
    model = keras.Model(read, layers.Dense(classes)(layers.GlobalAveragePooling1D()(x)))
    data = tf.data.Dataset.from_tensor_slices((text, labels)).shuffle(rows, seed=93).batch(64)
    return _compiled(model, keras.optimizers.AdamW(1e-4), data)


def small_mlp() -> Training:
    """A network of two layers, whose steps are over before Python has begun the next."""
    rows, classes = 20_000, 10
    rng = np.random.default_rng(101)
    x = rng.normal(size=(rows, 784)).astype("float32")
    y = rng.integers(0, classes, rows)
    keras.utils.set_random_seed(102)
    model = keras.Sequential(
        [keras.Input((784,)), layers.Dense(128, "relu"), layers.Dense(classes)]
    )
    training = _compiled(model, keras.optimizers.Adam(), (x, y))
    return Training(training.model, training.data, {"batch_size": 32})


TRAININGS: Final[dict[str, Callable[[], Training]]] = {
    "photographs": photographs,
    "residual_network": residual_network,
    "transformer": transformer,
    "small_mlp": small_mlp,
}


def _compiled(model: Any, optimizer: Any, data: Any) -> Training:
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(**_SPARSE))
    return Training(model, data)


def _as_floats(x: Any, y: Any) -> Any:
    return tf.cast(x, tf.float32) / 255.0, y


def _block(x: Any, width: int, stride: int) -> Any:
    y = layers.Conv2D(width, 3, strides=stride, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.Conv2D(width, 3, padding="same", use_bias=False)(y)
    y = layers.BatchNormalization()(y)
    if stride > 1 or x.shape[-1] != width:
        x = layers.Conv2D(width, 1, strides=stride, use_bias=False)(x)
    return layers.ReLU()(layers.Add()([x, y]))
