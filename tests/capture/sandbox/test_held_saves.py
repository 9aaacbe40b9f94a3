from __future__ import annotations

import keras
import pytest
import tensorflow as tf

from uncork.capture.sandbox.held_saves import suppress_saves


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


def test_held_saves_leave_no_files(model, tmp_path):
    with suppress_saves() as saves:
        written = save_everything(model, tmp_path)
    assert list(tmp_path.iterdir()) == []
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
        "tf.summary.create_file_writer": 1,
    }


def test_saves_again_afterwards(model, tmp_path):
    with suppress_saves():
        pass
    written = save_everything(model, tmp_path)
    assert written == ["/written", "/saved-1", "/managed/ckpt-2", "/managed/ckpt-7"]
    names = {path.name for path in tmp_path.iterdir()}
    assert {"model.keras", "model.weights.h5", "export", "saved_model", "logs"} <= names


def test_callback_of_keras(model, tmp_path):
    x = tf.zeros((8, 4))
    best = keras.callbacks.ModelCheckpoint(str(tmp_path / "best.keras"), monitor="loss")
    with suppress_saves() as saves:
        model.fit(x, x[:, :1], epochs=2, callbacks=[best], verbose=0)
    assert list(tmp_path.iterdir()) == []
    assert saves.counts == {"Model.save": 2}


def test_what_an_interrupted_training_is_to_go_on_from_stays(model, tmp_path):
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
    with suppress_saves() as saves:
        model.fit(x, y, epochs=5, verbose=0, callbacks=[again])
    assert {file: file.read_bytes() for file in (tmp_path / "backup").iterdir()} == kept
    assert set(saves.counts) == {"BackupAndRestore"}
