"""Checkpoints are written while a ``fit`` trains on: nobody sees anything but whole files."""

from __future__ import annotations

import errno
import functools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from training.models import BATCH, X, Y, mlp
from uncork.training.callbacks.async_checkpoint import (
    AsyncCheckpoints,
    find_async_checkpoints,
    has_own_save,
    is_replaceable_file,
    waiting_callback_name,
)
from uncork.training.callbacks.checkpoint_copy import CheckpointCopy
from uncork.training.callbacks.checkpoint_diff import checkpoint_difference
from uncork.training.state.snapshot import Snapshot

Checkpoint = keras.callbacks.ModelCheckpoint
WRITE = CheckpointCopy.write


class Seeing(keras.callbacks.Callback):
    """Notes at the end of each epoch what a function tells."""

    def __init__(self, look: Callable[[], Any]) -> None:
        super().__init__()
        self.look = look
        self.seen: list[Any] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seen.append(self.look())


RATE = 0.9
scheduled = keras.callbacks.LearningRateScheduler


@functools.cache
def compiled_once() -> tuple[keras.Model, Snapshot]:
    keras.utils.set_random_seed(5)
    model = mlp(keras.layers.Dropout(0.3))
    start = Snapshot(model)
    model.fit(X, Y, batch_size=BATCH, validation_data=(X, Y), verbose=0)
    return model, start


def trained(callbacks: Any, epochs: int = 3, *, beside: bool = True) -> keras.Model:
    """The same training each time, traced once."""
    model, start = compiled_once()
    start.restore_values()
    keras.utils.set_random_seed(5)
    saves = AsyncCheckpoints(callbacks, find_async_checkpoints(callbacks) if beside else [])
    given = {"callbacks": saves.callbacks, "batch_size": BATCH, "epochs": epochs, "verbose": 0}
    with saves.active():
        model.fit(X, Y, validation_data=(X, Y), **given)
    return model


@pytest.mark.every(4)
@pytest.mark.parametrize(
    "how",
    [
        {"filepath": "{epoch}.keras"},
        {"filepath": "best-{val_loss:.3f}.weights.h5", "save_weights_only": True},
        {"filepath": "{epoch}-{batch}.keras", "save_freq": 4},
        {"filepath": "best.keras", "save_best_only": True, "verbose": 1},
    ],
)
def test_files_and_weights_are_those_of_the_script(how: dict[str, Any], tmp_path: Path) -> None:
    found = []
    for beside in (False, True):
        folder = tmp_path / str(beside)
        given = {**how, "filepath": str(folder / how["filepath"])}
        callback = Checkpoint(**given)
        found.append(trained([callback], epochs=2, beside=beside).get_weights())
        assert not vars(callback).keys() & {"_save_model", "on_train_batch_end", "on_train_end"}
    written, ours = (sorted((tmp_path / name).iterdir()) for name in ("False", "True"))
    assert [path.name for path in written] == [path.name for path in ours]
    for pair in zip(written, ours, strict=True):
        assert checkpoint_difference(*pair) == ""
    for pair in zip(*found, strict=True):
        np.testing.assert_array_equal(*pair)


def test_training_goes_on_while_the_file_before_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, go_on, seen = tmp_path / "c.keras", threading.Event(), []
    mlp(compiled=False).save(path)
    before = path.read_bytes()

    def waiting(copied: CheckpointCopy, to: Path) -> None:
        WRITE(copied, to)
        assert go_on.wait(60)

    def look(batch: int, logs: Any) -> None:
        seen.append(path.read_bytes() == before)
        assert not list(tmp_path.glob("*.keras"))[1:], "what is unfinished has no such name"
        go_on.set()

    monkeypatch.setattr(CheckpointCopy, "write", waiting)
    monkeypatch.setattr(
        "uncork.training.callbacks.async_checkpoint._INDIFFERENT", (Checkpoint, LooksAtBatches)
    )
    trained([Checkpoint(path, save_freq=2), LooksAtBatches(look)], epochs=1)
    assert seen[0], "a step after the save"
    assert path.read_bytes() != before
    assert [found.name for found in tmp_path.iterdir()] == ["c.keras"]


class LooksAtBatches(keras.callbacks.Callback):
    def __init__(self, look: Callable[[int, Any], None]) -> None:
        super().__init__()
        self.look = look

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch > 1:
            self.look(batch, logs)


def test_who_looks_at_the_file_finds_it_complete(tmp_path: Path) -> None:
    path = tmp_path / "{epoch}.keras"
    seeing = Seeing(lambda: [int(p.stem) for p in sorted(tmp_path.glob("*")) if _loads(p)])
    trained([Checkpoint(path), seeing])
    assert seeing.seen == [[1], [1, 2], [1, 2, 3]]


def _loads(path: Path) -> bool:
    return bool(keras.models.load_model(path).built)


@pytest.mark.parametrize(
    ("callbacks", "who"),
    [
        ([Checkpoint("a.keras")], ""),
        ([Checkpoint("a.keras"), keras.callbacks.EarlyStopping()], ""),
        ([Checkpoint("a.keras"), Seeing(int)], "Seeing"),
        ([Seeing(int), Checkpoint("a.keras")], ""),
        ([LooksAtBatches(print), Checkpoint("a.keras")], "LooksAtBatches"),
        ([scheduled(lambda epoch: 0.1 * RATE**epoch), Checkpoint("a.keras")], ""),
        ([scheduled(lambda epoch: 0.1 * np.exp(-epoch)), Checkpoint("a.keras")], ""),
        ([scheduled(keras.optimizers.schedules.CosineDecay(0.1, 9)), Checkpoint("a.keras")], ""),
        ([scheduled(lambda epoch: compiled_once()[1]), Checkpoint("a.keras")], "LearningRate"),
        ([scheduled(np.load), Checkpoint("a.keras")], "LearningRate"),
        ([keras.callbacks.LambdaCallback(on_epoch_begin=print), Checkpoint("a.keras")], "Lambda"),
        ([Checkpoint("a.keras"), keras.callbacks.LambdaCallback(on_train_end=print)], ""),
        (keras.callbacks.CallbackList([Checkpoint("a.keras")]), ""),
        ([keras.callbacks.BackupAndRestore("b"), Checkpoint("a.keras")], ""),
        ([keras.callbacks.BackupAndRestore("b", save_freq=9), Checkpoint("a.keras")], "Backup"),
        ([Checkpoint("a.keras"), keras.callbacks.SwapEMAWeights()], ""),
        (None, ""),
    ],
)
def test_who_would_wait(callbacks: Any, who: str) -> None:
    assert waiting_callback_name(callbacks).startswith(who)
    assert bool(waiting_callback_name(callbacks)) == bool(who)


class Own(Checkpoint):
    """May read what it has saved."""


def test_only_files_of_keras_are_written_beside() -> None:
    weights = Checkpoint("a.weights.h5", save_weights_only=True)
    exchanged = Checkpoint("b.keras")
    exchanged._save_model = print
    given = [Own("a.keras"), Checkpoint("old.h5"), exchanged, weights, Seeing(int)]
    assert find_async_checkpoints(given) == [weights]
    assert find_async_checkpoints(weights) == [weights]
    saves = AsyncCheckpoints(given[:1], [])
    assert saves.callbacks is not None
    assert not saves.checkpoints


@pytest.mark.parametrize("hook", ["next batch", "next save", "end"])
def test_what_cannot_be_written_is_an_error_of_the_training(
    hook: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.weights.h5"
    given = {"save_weights_only": True, "save_freq": 3 if hook == "next batch" else "epoch"}

    def full(copied: CheckpointCopy, to: Path) -> None:
        raise OSError(errno.ENOSPC, f"No space left on device: {to.name}")

    monkeypatch.setattr(CheckpointCopy, "write", full)
    with pytest.raises(OSError, match=r"No space left on device: c\.weights\.h5") as caught:
        trained([Checkpoint(path, **given)], epochs=1 if hook == "end" else 3)
    assert caught.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


def test_a_disk_with_room_for_one_file_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.keras"

    def narrow(copied: CheckpointCopy, to: Path) -> None:
        if to != path:
            raise OSError(errno.ENOSPC, "No space left on device")
        WRITE(copied, to)

    monkeypatch.setattr(CheckpointCopy, "write", narrow)
    model = trained([Checkpoint(path)], epochs=2)
    np.testing.assert_array_equal(keras.models.load_model(path).get_weights()[0], model.weights[0])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ZeroDivisionError("a bug")])
def test_an_interrupted_training_leaves_a_whole_file(error: BaseException, tmp_path: Path) -> None:
    callback, path = Checkpoint(tmp_path / "c.keras"), tmp_path / "c.keras"

    def stop(epoch: int, logs: Any) -> None:
        raise error

    stopping = keras.callbacks.LambdaCallback(on_epoch_begin=lambda e, logs: e == 2 and stop(e, 0))
    with pytest.raises(type(error)):
        trained([callback, stopping])
    assert keras.models.load_model(path).built
    assert callback._save_model.__func__ is Checkpoint._save_model


def test_an_interruption_is_not_hidden_by_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(copied: CheckpointCopy, to: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    class Stopping(keras.callbacks.EarlyStopping):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(CheckpointCopy, "write", full)
    monkeypatch.setattr(
        "uncork.training.callbacks.async_checkpoint._INDIFFERENT", (Checkpoint, Stopping)
    )
    with pytest.raises(KeyboardInterrupt):
        trained([Checkpoint(tmp_path / "c.keras"), Stopping()])
    assert "No space left on device" in capsys.readouterr().err


def test_a_directory_is_refused_in_the_words_of_keras(tmp_path: Path) -> None:
    (tmp_path / "c.keras").mkdir()
    with pytest.raises(IOError, match="specify a non-directory filepath"):
        trained([Checkpoint(tmp_path / "c.keras")])


def test_what_cannot_be_copied_is_saved_on_the_spot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_args: Any, **_kwargs: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("uncork.training.callbacks.async_checkpoint.CheckpointCopy", no_room)
    trained([Checkpoint(tmp_path / "c.keras")])
    assert keras.models.load_model(tmp_path / "c.keras").built


def test_what_is_more_than_a_file_is_written_as_it_is(tmp_path: Path) -> None:
    plain, link, twin = (tmp_path / name for name in ("plain", "link", "twin"))
    plain.touch()
    assert is_replaceable_file(plain)
    assert is_replaceable_file(tmp_path / "new.keras")
    link.symlink_to(plain)
    assert not is_replaceable_file(link)
    os.link(plain, twin)
    assert not is_replaceable_file(plain)
    assert not is_replaceable_file(tmp_path)
    assert not is_replaceable_file(tmp_path / "missing" / "new.keras")
    assert not is_replaceable_file("gs://bucket/new.keras")


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "c.keras"
    path.touch(mode=0o640)
    path.chmod(0o640)
    trained([Checkpoint(path)], epochs=1)
    assert path.stat().st_mode & 0o777 == 0o640


class Saving(keras.Model):
    """Does something with the file that it has just saved."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = keras.layers.Dense(Y.shape[-1])
        self.sizes: list[int] = []

    def call(self, inputs: Any) -> Any:
        return self.layer(inputs)

    def save_weights(self, filepath: Any, **how: Any) -> None:
        super().save_weights(filepath, **how)
        self.sizes.append(Path(filepath).stat().st_size)


def test_a_model_with_a_save_of_its_own_finds_its_file(tmp_path: Path) -> None:
    model = Saving()
    model.compile("sgd", "mse")
    saves = Checkpoint(str(tmp_path / "w.weights.h5"), save_weights_only=True)
    beside = AsyncCheckpoints([saves], find_async_checkpoints([saves]))
    with beside.active():
        model.fit(X, Y, epochs=2, verbose=0, callbacks=beside.callbacks)
    assert len(model.sizes) == 2
    assert min(model.sizes) > 0
    assert has_own_save(model)
    assert not has_own_save(compiled_once()[0])
