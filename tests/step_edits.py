"""Trainings that each lever of the step is for, on whatever the kernels run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Guarantee
from uncork.engine.fit.fit_subject import FitSubject
from uncork.training.variant import Variant

BATCH = 32
ROWS = 256
WORDS = 500


def small_images(side: int = 8) -> tuple[Any, Any]:
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 4, ROWS)
    pixels = rng.integers(0, 200, (ROWS, side, side, 3)) + 13 * labels[:, None, None, None]
    wrong = rng.random(ROWS) < 0.2  # so that there is a loss to compare, however long it trains
    return pixels.astype("uint8"), np.where(wrong, rng.integers(0, 4, ROWS), labels)


def _floats(x: Any, y: Any) -> Any:
    return tf.cast(x, tf.float32) / 255.0, y


def images(side: int = 8) -> tf.data.Dataset:
    """Pixels become floats behind the batch."""
    with tf.device("CPU"):
        data = tf.data.Dataset.from_tensor_slices(small_images(side))
    return data.shuffle(ROWS, seed=3).batch(BATCH, drop_remainder=True).map(_floats).prefetch(2)


def texts() -> tf.data.Dataset:
    words = np.random.default_rng(8).integers(0, WORDS, (ROWS, 6)).astype("int32")
    data = tf.data.Dataset.from_tensor_slices((words, words[:, 0] % 4))
    return data.shuffle(ROWS, seed=3).batch(BATCH, drop_remainder=True)


def convolutions(
    *, blocks: int = 2, width: int = 8, side: int = 8, normalized: bool = True, **compiled: Any
) -> Any:
    """No bias where the next layer takes the mean off: its gradient would be rounding alone."""
    keras.utils.set_random_seed(11)
    body: list[Any] = []
    for _ in range(blocks):
        body += [layers.Conv2D(width, 3, padding="same", use_bias=not normalized)]
        body += [layers.BatchNormalization()] if normalized else []
        body += [layers.ReLU()]
    body += [layers.GlobalAveragePooling2D(), layers.Dense(4)]
    return _compiled(keras.Sequential([keras.Input((side, side, 3)), *body]), compiled)


def embedding(**compiled: Any) -> Any:
    keras.utils.set_random_seed(12)
    body = [layers.Embedding(WORDS, 8), layers.GlobalAveragePooling1D(), layers.Dense(4)]
    return _compiled(keras.Sequential([keras.Input((6,), dtype="int32"), *body]), compiled)


def subject_of(model: Any, folder: Path, data: Any = None) -> FitSubject:
    given = {"x": images() if data is None else data, "epochs": 3}
    return FitSubject(model, given, 0, "train.py:9", str(folder))


def proved(subject: FitSubject, version: Variant, kind: Guarantee, budget_s: float = 20.0) -> Proof:
    """As the road asks: for bits first, where the step promises them."""
    found = subject.prove_step(version, kind, budget_s)
    if not found.passed and kind == "exact":
        found = subject.prove_step(version, "rounding", budget_s)
    return found


def _compiled(model: Any, compiled: dict[str, Any]) -> Any:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    how = {"optimizer": keras.optimizers.Adam(1e-3), "loss": loss, "jit_compile": False}
    model.compile(**{**how, **compiled})
    return model
