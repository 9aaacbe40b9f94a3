from __future__ import annotations

import glob
import os
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.capture.sandbox.redirected_saves import redirect_saves


@pytest.fixture
def model():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def save_everything(model, folder):
    """Through every door, each with a path of its own."""
    path = str(folder)
    model.save(f"{path}/model.keras")
    model.save_weights(f"{path}/model.weights.h5")
    model.export(f"{path}/export", verbose=False)
    keras.saving.save_model(model, f"{path}/function.keras")
    keras.models.save_model(model, f"{path}/function.h5")
    keras.saving.save_weights(model, f"{path}/function.weights.h5")
    tf.saved_model.save(tf.Module(), f"{path}/saved_model")
    checkpoint = tf.train.Checkpoint(model=model)
    manager = tf.train.CheckpointManager(checkpoint, f"{path}/managed", max_to_keep=2)
    written = (
        checkpoint.write(f"{path}/written"),
        checkpoint.save(f"{path}/saved"),
        manager.save(),
        manager.save(checkpoint_number=7),
    )
    with tf.summary.create_file_writer(f"{path}/logs").as_default():
        tf.summary.write("loss", 1.0, step=0)
    return [name.removeprefix(path) for name in written]


@pytest.fixture
def own(tmp_path):
    """Where saves go, in a folder of Uncork's own."""
    return tmp_path / "of uncork" / "saves"


@pytest.fixture
def users(tmp_path):
    """A folder of the user's."""
    (tmp_path / "users").mkdir()
    return tmp_path / "users"


def test_no_save_reaches_the_user_s_folder(model, users, own):
    with redirect_saves(own) as saves:
        written = save_everything(model, users)
    assert list(users.iterdir()) == []
    assert written == ["/written", "/saved-1", "/managed/ckpt-2", "/managed/ckpt-7"]
    assert saves.counts == {
        "Model.save": 1,
        "Model.save_weights": 1,
        "Model.export": 1,
        "keras.saving.save_model": 2,
        "keras.saving.save_weights": 1,
        "tf.saved_model.save": 1,
        "Checkpoint.write": 1,
        "Checkpoint.save": 1,
        "CheckpointManager.save": 2,
    }
    assert saves.suppressed == {"tf.summary.create_file_writer": 1}


def test_the_script_reads_what_it_saved(model, users, own, monkeypatch):
    monkeypatch.chdir(users)
    (users / "model.keras").write_text("of last week")
    with redirect_saves(own):
        save_everything(model, ".")
        before = model.get_weights()[0]
        model.set_weights([0 * each for each in model.get_weights()])
        model.load_weights("model.weights.h5")
        assert np.array_equal(model.get_weights()[0], before)
        for path in ("model.keras", users / "function.keras", "function.h5"):
            loaded = keras.saving.load_model(path, compile=False)
            assert np.array_equal(loaded.get_weights()[0], before)
        keras.saving.load_weights(model, str(users / "function.weights.h5"))
        assert tf.saved_model.load("export").serve(tf.ones((2, 4))).shape == (2, 1)
        tf.saved_model.load("saved_model")
        assert sorted(glob.glob("*.keras")) == ["function.keras", "model.keras"]  # noqa: PTH207
        assert {"export", "function.h5", "model.keras"} <= set(os.listdir())  # noqa: PTH208
        assert {"export", "function.h5", "model.keras"} <= {p.name for p in users.iterdir()}
        assert Path("export", "variables").is_dir()
    assert [path.name for path in users.iterdir()] == ["model.keras"]
    assert (users / "model.keras").read_text() == "of last week"


def test_checkpoints_are_numbered_kept_and_restored(model, users, own, monkeypatch):
    monkeypatch.chdir(users)
    checkpoint = tf.train.Checkpoint(model=model)
    earlier = tf.train.CheckpointManager(checkpoint, "managed", max_to_keep=2)
    of_the_user = earlier.save()
    files = {path: path.read_bytes() for path in (users / "managed").iterdir()}
    with redirect_saves(own):
        assert tf.train.latest_checkpoint("managed") == of_the_user
        manager = tf.train.CheckpointManager(checkpoint, "managed", max_to_keep=2)
        saved = [manager.save() for _ in range(3)]
        assert manager.checkpoints == saved[1:]
        assert manager.latest_checkpoint == tf.train.latest_checkpoint("managed") == saved[-1]
        here = tf.io.gfile.glob("managed/*.index")
        assert here == [f"{each}.index" for each in saved[1:]]
        assert not tf.io.gfile.exists(f"{of_the_user}.index"), "two are kept"
        checkpoint.restore(manager.latest_checkpoint).assert_consumed()
        path = checkpoint.save("single/a")
        assert tf.train.latest_checkpoint("single") == path
        assert tf.train.list_variables("single")
        checkpoint.read(checkpoint.write("written"))
    assert {path: path.read_bytes() for path in (users / "managed").iterdir()} == files
    assert [path.name for path in users.iterdir()] == ["managed"]
    assert tf.train.latest_checkpoint("managed") == of_the_user


def test_a_full_disk_costs_the_saves_and_not_the_script(model, users, own, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 0))
    with redirect_saves(own) as saves:
        written = save_everything(model, users)
    assert written == ["/written", "/saved-1", "/managed/ckpt-2", "/managed/ckpt-7"]
    assert not saves.counts
    assert saves.suppressed["Model.save"] == 1
    assert list(users.iterdir()) == []
    assert not [path for path in own.rglob("*") if path.is_file()]


def test_another_error_is_the_script_s(model, users, own):
    with redirect_saves(own), pytest.raises(ValueError, match=r"\.weights\.h5"):
        model.save_weights(users / "weights.txt")


def test_saves_again_afterwards(model, tmp_path, own):
    with redirect_saves(own):
        pass
    written = save_everything(model, tmp_path)
    assert written == ["/written", "/saved-1", "/managed/ckpt-2", "/managed/ckpt-7"]
    names = {path.name for path in tmp_path.iterdir()}
    assert {"model.keras", "model.weights.h5", "export", "saved_model", "logs"} <= names


def test_callback_of_keras(model, users, own):
    x = tf.zeros((8, 4))
    best = keras.callbacks.ModelCheckpoint(str(users / "best.keras"), monitor="loss")
    with redirect_saves(own) as saves:
        model.fit(x, x[:, :1], epochs=2, callbacks=[best], verbose=0)
        keras.saving.load_model(users / "best.keras")
    assert list(users.iterdir()) == []
    assert saves.counts == {"Model.save": 2}


def test_what_an_interrupted_training_is_to_go_on_from_stays(model, tmp_path, own):
    x, y = tf.ones((8, 4)), tf.ones((8, 1))

    class Interrupted(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise KeyboardInterrupt

    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup", delete_checkpoint=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y, epochs=2, verbose=0, callbacks=[backup, Interrupted()])
    kept = {file: file.read_bytes() for file in (tmp_path / "backup").iterdir()}
    assert kept
    again = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with redirect_saves(own) as saves:
        model.fit(x, y, epochs=5, verbose=0, callbacks=[again])
    assert {file: file.read_bytes() for file in (tmp_path / "backup").iterdir()} == kept
    assert set(saves.suppressed) == {"BackupAndRestore"}
    assert not saves.counts
