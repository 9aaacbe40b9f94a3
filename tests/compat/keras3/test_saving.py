from __future__ import annotations

import functools
import pickle

import keras
import pytest

from uncork.compat.keras3.saving import (
    SAVE,
    H5Store,
    is_remote_path,
    noting_pickled,
    other_store,
    saver,
    traces_batches,
    wrapped_savers,
)
from uncork.core.base.errors import MissingPrivateApi


@pytest.fixture
def model():
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


@pytest.mark.parametrize(("weights_only", "name"), [(True, "w.weights.h5"), (False, "m.keras")])
def test_a_saver_writes_what_keras_reads(model, tmp_path, weights_only, name):
    path = tmp_path / name
    saver(weights_only=weights_only)(model, path)
    read = model.load_weights if weights_only else keras.saving.load_model
    read(path)


def test_savers_are_other_functions_inside_the_block(model, tmp_path):
    saves = []

    def wrap(save, weights_only):
        @functools.wraps(save)
        def instead(model, filepath, *args, **kwargs):
            saves.append((filepath.name, weights_only))

        return instead

    keras_s = saver(weights_only=True)
    with wrapped_savers(wrap):
        model.save_weights(tmp_path / "w.weights.h5")
        assert saver(weights_only=True) is keras_s
    assert saves == [("w.weights.h5", True)]
    model.save_weights(tmp_path / "w.weights.h5")
    assert len(saves) == 1


def test_another_store_is_written_to(model, tmp_path):
    paths = []

    class Store(H5Store):
        def __init__(self, path, *args, **kwargs):
            paths.append(path)
            super().__init__(path, *args, **kwargs)

    for _ in range(2):
        with other_store(Store):
            model.save_weights(tmp_path / "w.weights.h5")
        model.save_weights(tmp_path / "v.weights.h5")
    assert len(paths) == 2


def test_a_checkpoint_saves_by_one_method(model, tmp_path):
    callback = keras.callbacks.ModelCheckpoint(tmp_path / "m.keras")
    epochs = []
    setattr(callback, SAVE, lambda epoch, *args, **kwargs: epochs.append(epoch))
    model.compile("sgd", "mse")
    callback.set_model(model)
    callback.on_epoch_end(3, {})
    assert epochs == [3]


def test_paths_on_other_file_systems_are_told_apart(tmp_path):
    assert is_remote_path("gs://bucket/m.keras")
    assert not is_remote_path(str(tmp_path))


def test_what_is_pickled_is_reported(model):
    parts = []
    with noting_pickled(parts.append):
        pickle.dumps(model)
    pickle.dumps(model)
    assert parts == [model]


@pytest.mark.parametrize(("batches", "traces"), [(0, False), ((2, 4), True)])
def test_a_callback_that_traces_batches_is_told_apart(tmp_path, batches, traces, model):
    callback = keras.callbacks.TensorBoard(tmp_path, profile_batch=batches)
    callback.set_model(model)
    assert traces_batches(callback) is traces


def test_a_missing_field_is_reported():
    with pytest.raises(MissingPrivateApi, match=r"object\._should_trace'"):
        traces_batches(object())
