"""Models whose steps are so small that what is around them counts; each with arrays to train on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import keras
import numpy as np
from keras import layers

BATCH: Final = 32
ROWS: Final = 200 * BATCH
_CLASSES: Final = 10


def mlp() -> tuple[Any, Any]:
    """Two dense layers on what could be digits."""
    return keras.Sequential(
        [keras.Input((784,)), layers.Dense(128, "relu"), layers.Dense(_CLASSES)]
    ), _draw((784,))


def deep_mlp() -> tuple[Any, Any]:
    """Twenty narrow layers."""
    hidden = [layers.Dense(32, "relu") for _ in range(20)]
    return keras.Sequential([keras.Input((32,)), *hidden, layers.Dense(_CLASSES)]), _draw((32,))


def cnn() -> tuple[Any, Any]:
    """Two convolutions."""
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(8, 3, strides=2, activation="relu"),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(_CLASSES),
        ]
    ), _draw((28, 28, 1))


def lstm() -> tuple[Any, Any]:
    """One recurrent layer over twelve steps."""
    return keras.Sequential([keras.Input((12, 8)), layers.LSTM(16), layers.Dense(_CLASSES)]), _draw(
        (12, 8)
    )


def transformer() -> tuple[Any, Any]:
    """Two blocks of attention over sixteen tokens."""
    words = keras.Input((16,), dtype="int32")
    x = layers.Embedding(500, 32)(words)
    for _ in range(2):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 16)(x, x))
        x = layers.LayerNormalization()(x + layers.Dense(32)(layers.Dense(64, "relu")(x)))
    made = keras.Model(words, layers.Dense(_CLASSES)(layers.GlobalAveragePooling1D()(x)))
    return made, np.random.default_rng(1).integers(0, 500, (ROWS, 16)).astype("int32")


MODELS: Final[dict[str, Callable[[], tuple[Any, Any]]]] = {
    "MLP 784-128-10": mlp,
    "MLP of 20 narrow layers": deep_mlp,
    "CNN of two layers": cnn,
    "LSTM of 16 units": lstm,
    "transformer of two blocks": transformer,
}


def compiled(name: str, rows: int = ROWS) -> tuple[Any, Any, Any]:
    """The model with Adam, its inputs and labels.

    Args:
        name: Of the model.
        rows: Of its arrays; what was drawn comes again and again, where they are more.
    """
    keras.utils.set_random_seed(1)
    model, x = MODELS[name]()
    times = -(-rows // ROWS)
    x = np.concatenate([x] * times)[:rows]
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model, x, np.random.default_rng(2).integers(0, _CLASSES, rows)


def _draw(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(1).normal(size=(ROWS, *shape)).astype("float32")
