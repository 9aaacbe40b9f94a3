"""Checkpoints of weights on the accelerator, written beside the training."""

from __future__ import annotations

from pathlib import Path

import keras

from step_edits import convolutions, images
from uncork.training.callbacks.async_checkpoint import AsyncCheckpoints, find_async_checkpoints
from uncork.training.callbacks.checkpoint_diff import checkpoint_difference


def test_checkpoints_hold_the_weights_of_their_epoch(tmp_path: Path) -> None:
    class Beside(keras.callbacks.Callback):
        """Saves the same by itself; nothing else is trained between the two."""

        def on_epoch_end(self, epoch: int, logs: object = None) -> None:
            self.model.save(tmp_path / f"own-{epoch + 1}.keras")

    model = convolutions()
    callbacks = [keras.callbacks.ModelCheckpoint(str(tmp_path / "{epoch}.keras")), Beside()]
    saves = AsyncCheckpoints(callbacks, find_async_checkpoints(callbacks))
    with saves.active():
        model.fit(images(), epochs=3, verbose=0, callbacks=saves.callbacks)
    for epoch in (1, 2, 3):
        files = tmp_path / f"own-{epoch}.keras", tmp_path / f"{epoch}.keras"
        assert checkpoint_difference(*files) == ""
