"""Hold back what a script would save, in a run that is thrown away.

While a script is diagnosed or tuned it must not overwrite a checkpoint with the weights of a trial.
Held are Keras's and TensorFlow's own savers: models, weights, exports, checkpoints, SavedModels and
summaries. What else the script writes (``open``, ``numpy.save``, ``CSVLogger``, W&B) is written; of
that, :mod:`uncork.capture.sandbox.file_backup` puts back what was there before.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from uncork.capture.base.patches import PatchSet
from uncork.compat.hook_targets import (
    KERAS_BACKUP,
    KERAS_LEGACY_SAVING,
    KERAS_MODEL,
    KERAS_SAVING,
    TF_CHECKPOINT,
    TF_CHECKPOINT_MANAGEMENT,
    TF_SAVED_MODEL,
    TF_SUMMARIES,
)
from uncork.compat.tf.saving import SUMMARY_WRITERS, checkpoint_prefix


class SuppressedSaves:
    """What was held back so far.

    Attributes:
        counts: How often, by name, e.g. ``{"Model.save": 3}``.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = Counter()


@contextmanager
def suppress_saves() -> Iterator[SuppressedSaves]:
    """Nothing is saved while the block runs.

    Every held call returns what it would have returned, a checkpoint's path for one.

    Example:
        >>> with suppress_saves() as saves:
        ...     pass  # the user's code
        >>> dict(saves.counts)
        {}
    """
    saves, patches = SuppressedSaves(), PatchSet()
    hold = _Hold(saves, patches)
    for module, names in _SAVERS.items():
        patches.when_imported(module, functools.partial(hold.savers, names=names))
    patches.when_imported(TF_SUMMARIES, hold.summaries)
    try:
        yield saves
    finally:
        patches.restore()


class _Hold:
    def __init__(self, saves: SuppressedSaves, patches: PatchSet) -> None:
        self._held = saves.counts
        self._patches = patches

    def savers(self, module: Any, *, names: dict[str, tuple[str, Callable[..., Any]]]) -> None:
        """Put a counter in the place of each saver in a module."""
        for path, (name, answer) in names.items():
            *owners, attribute = path.split(".")
            owner = functools.reduce(getattr, owners, module)
            self._patches.replace(
                owner, attribute, functools.partial(self._counter, name=name, answer=answer)
            )

    def summaries(self, module: Any) -> None:
        """Hand out writers that write nothing."""
        for writer in SUMMARY_WRITERS:
            self._patches.replace(
                module,
                writer,
                functools.partial(
                    self._counter,
                    name="tf.summary.create_file_writer",
                    answer=lambda **_: module.create_noop_writer(),
                ),
            )

    def _counter(
        self, original: Callable[..., Any], *, name: str, answer: Callable[..., Any]
    ) -> Callable[..., Any]:
        @functools.wraps(original)
        def held(*args: Any, **kwargs: Any) -> Any:
            self._held[name] += 1
            return answer(*args, **kwargs)

        return held


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    return None


def _written(checkpoint: Any, file_prefix: Any, *_args: Any, **_kwargs: Any) -> str:
    del checkpoint
    return str(os.fspath(file_prefix))


def _numbered(checkpoint: Any, file_prefix: Any, *_args: Any, **_kwargs: Any) -> str:
    """The path of the next checkpoint; the counter moves on as if it had been written."""
    number = int(checkpoint.save_counter.assign_add(1))
    return f"{os.fspath(file_prefix)}-{number}"


def _managed(manager: Any, checkpoint_number: Any = None, *_args: Any, **_kwargs: Any) -> str:
    number = int(manager.checkpoint.save_counter.assign_add(1))
    number = number if checkpoint_number is None else int(checkpoint_number)
    return f"{checkpoint_prefix(manager)}-{number}"


# By module: what is replaced, what it is called in the notice, what the script gets instead.
# Module functions are replaced where others look them up at call time, because the public names
# (``keras.saving.save_model``, ``tf.saved_model.save``) are copies made at import.
_SAVERS: dict[str, dict[str, tuple[str, Callable[..., Any]]]] = {
    KERAS_MODEL: {
        "Model.save": ("Model.save", _nothing),
        "Model.save_weights": ("Model.save_weights", _nothing),
        "Model.export": ("Model.export", _nothing),
    },
    KERAS_SAVING: {
        "save_model": ("keras.saving.save_model", _nothing),
        "save_weights_only": ("keras.saving.save_weights", _nothing),
    },
    KERAS_LEGACY_SAVING: {
        "save_model_to_hdf5": ("keras.saving.save_model", _nothing),
    },
    # It would delete at the end what an interrupted training is to go on from.
    KERAS_BACKUP: {
        "BackupAndRestore._save_model": ("BackupAndRestore", _nothing),
        "BackupAndRestore.on_train_end": ("BackupAndRestore", _nothing),
    },
    TF_SAVED_MODEL: {
        "save_and_return_nodes": ("tf.saved_model.save", _nothing),
    },
    TF_CHECKPOINT: {
        "Checkpoint.write": ("Checkpoint.write", _written),
        "Checkpoint.save": ("Checkpoint.save", _numbered),
    },
    TF_CHECKPOINT_MANAGEMENT: {
        "CheckpointManager.save": ("CheckpointManager.save", _managed),
    },
}
