"""Copies of what Keras saves, written later, are the file that it would have written."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from training.models import BATCH, Subclassed, X, Y, mlp, two_outputs
from uncork.training.callbacks.async_checkpoint import find_async_checkpoints, keras_saver
from uncork.training.callbacks.checkpoint_copy import CheckpointCopy, CopyBuffers
from uncork.training.callbacks.checkpoint_diff import checkpoint_difference


def looking_up() -> keras.Model:
    words = keras.layers.TextVectorization(output_sequence_length=4)
    words.adapt(["a b c", "b c d"])
    layers = [words, keras.layers.Embedding(10, 3), keras.layers.Flatten(), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((1,), dtype="string"), *layers])
    model.compile("adam", "mse", metrics=["mae"])
    model.optimizer.build(model.trainable_variables)
    return model


def in_half() -> keras.Model:
    layers = keras.layers
    parts = [layers.Dense(3, dtype="bfloat16"), layers.BatchNormalization(), layers.Dropout(0.5)]
    last = layers.Dense(2, dtype="mixed_float16")
    model = keras.Sequential([keras.Input((6,)), *parts, last])
    inner = keras.optimizers.AdamW(use_ema=True)
    model.compile(keras.optimizers.LossScaleOptimizer(inner), "mse")
    return model


class Counting(keras.layers.Layer):
    """Saves by itself, and more than its weights."""

    def call(self, x: Any) -> Any:
        return x

    def save_own_variables(self, store: Any) -> None:
        store["made"] = np.arange(3)
        store["size"] = len(store)


def counting() -> keras.Model:
    return mlp(Counting(), optimizer=keras.optimizers.SGD(0.1, momentum=0.9))


def subclassed() -> keras.Model:
    model = Subclassed()
    model.compile("rmsprop", "mse")
    return model


MODELS = {
    "plain": (mlp, X, Y),
    "two outputs": (two_outputs, {"a": X, "b": X}, {"one": Y, "two": Y}),
    "its own class": (subclassed, X, Y),
    "saves by itself": (counting, X, Y),
    "half precision": (in_half, X, Y),
    "looks words up": (looking_up, tf.constant([["a b"], ["c d"]]), np.ones((2, 2))),
}


def saver(ending: str) -> Any:
    only = ending != ".keras"
    given = keras.callbacks.ModelCheckpoint(f"any{ending}", save_weights_only=only)
    return keras_saver(*find_async_checkpoints([given]))


@pytest.mark.every(6)
@pytest.mark.parametrize("name", MODELS)
def test_the_file_is_that_of_the_moment(name: str, tmp_path: Path) -> None:
    made, x, y = MODELS[name]
    keras.utils.set_random_seed(1)
    model, buffers = made(), CopyBuffers()
    for ending in (".keras", ".weights.h5"):  # one after the other into the same memory
        model.fit(x, y, batch_size=BATCH, verbose=0)
        written, later = tmp_path / f"written{ending}", tmp_path / f"later{ending}"
        save, only = saver(ending), ending != ".keras"
        save(model, str(written))
        copied = CheckpointCopy(model, save, weights_only=only, buffers=buffers)
        model.fit(x, y, batch_size=BATCH, verbose=0)
        copied.write(later)
        assert checkpoint_difference(written, later) == ""
        assert copied.size_bytes >= sum(v.numpy().nbytes for v in model.weights)
        save(model, str(later))
        assert checkpoint_difference(written, later), "trained on since"


def test_what_keras_refuses_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not yet been built"):
        CheckpointCopy(Subclassed(), saver(".weights.h5"), weights_only=True)
    saver(".weights.h5")(mlp(), str(tmp_path / "w.weights.h5"))
    assert (tmp_path / "w.weights.h5").stat().st_size


def test_files_of_other_models_differ(tmp_path: Path) -> None:
    one, other = tmp_path / "one.keras", tmp_path / "other.keras"
    mlp().save(one)
    mlp(keras.layers.Dropout(0.5)).save(other)
    assert checkpoint_difference(one, other) == "config.json"
    mlp(compiled=False).save_weights(tmp_path / "one.weights.h5")
    mlp(keras.layers.Dense(8), compiled=False).save_weights(tmp_path / "other.weights.h5")
    found = checkpoint_difference(tmp_path / "one.weights.h5", tmp_path / "other.weights.h5")
    assert "names" in found


class SavedElsewhere(keras.layers.Layer):
    """While it is copied, another thread saves another model."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.place = path

    def call(self, x: Any) -> Any:
        return x

    def save_own_variables(self, store: Any) -> None:
        other = threading.Thread(target=lambda: mlp().save_weights(self.place))
        other.start()
        other.join()


def test_another_thread_saves_as_ever_meanwhile(tmp_path: Path) -> None:
    model = mlp(SavedElsewhere(tmp_path / "other.weights.h5"))
    CheckpointCopy(model, saver(".weights.h5"), weights_only=True).write(tmp_path / "w.weights.h5")
    for path, made in (("other", mlp()), ("w", model)):
        assert (tmp_path / f"{path}.weights.h5").stat().st_size > 1000
        made.load_weights(tmp_path / f"{path}.weights.h5")
