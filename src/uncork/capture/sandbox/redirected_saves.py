"""Redirects what a script would save, in a run that is thrown away.

While a script is diagnosed or tuned it must not overwrite a checkpoint with the weights of a trial.
What Keras's and TensorFlow's own savers write goes to a folder that the script's own reads see:
models, weights, exports, checkpoints, SavedModels (:mod:`uncork.capture.sandbox.overlay`). Nothing
is written of summaries, which no training reads, nor for a callback that resumes a training; nor of
anything where the disk is full.
What else the script writes (``open``, ``numpy.save``, ``CSVLogger``, W&B) is written; of that,
:mod:`uncork.capture.sandbox.file_backup` puts back what was there before.
"""

from __future__ import annotations

import errno
import functools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from uncork.capture.base.patches import PatchSet
from uncork.capture.sandbox.overlay import Overlay
from uncork.capture.sandbox.overlay_files import show_saves
from uncork.compat.hook_targets import (
    KERAS_BACKUP,
    KERAS_LEGACY_SAVING,
    KERAS_MODEL,
    KERAS_SAVING,
    TF_CHECKPOINT,
    TF_CHECKPOINT_MANAGEMENT,
    TF_CHECKPOINT_READER,
    TF_SAVED_MODEL,
    TF_SAVED_MODEL_LOADER,
    TF_SUMMARIES,
)
from uncork.compat.tf.saving import (
    CHECKPOINT_FILES,
    LOAD_SAVED_MODEL,
    SUMMARY_WRITERS,
    WRITE_CHECKPOINT,
    checkpoint_prefix,
)

# The disk, the user's share of it, and the largest file that a job may write.
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_TEXTS: Final = tuple(map(os.strerror, _FULL))


@dataclass
class RedirectedSaves:
    """What the script saved so far.

    Attributes:
        counts: How often something was saved to the folder, by name, e.g. ``{"Model.save": 3}``.
        suppressed: How often nothing was saved, by name.
        overlay: The folder.
    """

    overlay: Overlay
    counts: dict[str, int] = field(default_factory=Counter)
    suppressed: dict[str, int] = field(default_factory=Counter)


@contextmanager
def redirect_saves(folder: Path) -> Iterator[RedirectedSaves]:
    """Nothing is saved where the script saves it while the block runs.

    Args:
        folder: For what is saved, in a directory of Uncork's own. It need not be there, and is for
            the caller to remove.

    Example:
        >>> from uncork.core.base.owned_folder import owned_folder
        >>> with owned_folder() as own, redirect_saves(Path(own, "saves")) as saves:
        ...     pass  # the user's code
        >>> dict(saves.counts)
        {}
    """
    saves, patches = RedirectedSaves(Overlay(folder)), PatchSet()
    hooks = _Hooks(saves, patches)
    for module, savers in _SAVERS.items():
        patches.when_imported(module, functools.partial(hooks.savers, savers=savers))
    for module, names in _SUPPRESSED.items():
        patches.when_imported(module, functools.partial(hooks.suppressed, names=names))
    patches.when_imported(TF_SUMMARIES, hooks.summaries)
    patches.when_imported(TF_CHECKPOINT, hooks.checkpoints)
    patches.when_imported(TF_CHECKPOINT_READER, hooks.checkpoint_reader)
    patches.when_imported(TF_SAVED_MODEL_LOADER, hooks.saved_model_loader)
    show_saves(saves.overlay, patches)
    try:
        yield saves
    finally:
        patches.restore()


@dataclass(frozen=True)
class _Saver:
    """A function that saves.

    Attributes:
        name: What it is called in the notice.
        argument: The argument with the path: its place and its name; None where there is none.
        is_tree: It writes a directory.
        answer: What it returns where nothing is saved.
    """

    name: str
    argument: tuple[int, str] | None = (1, "filepath")
    is_tree: bool = False
    answer: Callable[..., Any] = lambda *_args, **_kwargs: None


class _Hooks:
    def __init__(self, saves: RedirectedSaves, patches: PatchSet) -> None:
        self._saves = saves
        self._overlay = saves.overlay
        self._patches = patches

    def savers(self, module: Any, *, savers: dict[str, _Saver]) -> None:
        """Redirect each saver in a module."""
        for path, saver in savers.items():
            self._replace(module, path, functools.partial(self._saving, saver=saver))

    def suppressed(self, module: Any, *, names: dict[str, str]) -> None:
        """Put a counter in the place of each function."""
        for path, name in names.items():
            self._replace(module, path, functools.partial(self._counting, name=name))

    def summaries(self, module: Any) -> None:
        """Hand out writers that write nothing."""
        for writer in SUMMARY_WRITERS:
            count = functools.partial(
                self._counting,
                name="tf.summary.create_file_writer",
                answer=lambda **_: module.create_noop_writer(),
            )
            self._patches.replace(module, writer, count)

    def checkpoints(self, module: Any) -> None:
        """Their files, and what is written and removed beside them."""
        self._replace(module, WRITE_CHECKPOINT, self._inside)
        self._replace(module, f"{CHECKPOINT_FILES}.save", self._writing_files)
        self._replace(module, f"{CHECKPOINT_FILES}.restore", self._reading(1, "save_path"))

    def checkpoint_reader(self, module: Any) -> None:
        """``tf.train.load_checkpoint`` and others."""
        self._replace(module, "NewCheckpointReader", self._reading(0, "filepattern"))

    def saved_model_loader(self, module: Any) -> None:
        """Its C++ functions read, too."""
        self._replace(module, LOAD_SAVED_MODEL, self._reading(0, "export_dir"))

    def _replace(self, module: Any, path: str, make: Callable[[Any], Any]) -> None:
        *owners, attribute = path.split(".")
        self._patches.replace(functools.reduce(getattr, owners, module), attribute, make)

    def _counting(
        self,
        original: Callable[..., Any],
        *,
        name: str,
        answer: Callable[..., Any] = lambda *_args, **_kwargs: None,
    ) -> Callable[..., Any]:
        @functools.wraps(original)
        def held(*args: Any, **kwargs: Any) -> Any:
            self._saves.suppressed[name] += 1
            return answer(*args, **kwargs)

        return held

    def _saving(self, original: Callable[..., Any], *, saver: _Saver) -> Callable[..., Any]:
        @functools.wraps(original)
        def saving(*args: Any, **kwargs: Any) -> Any:
            with self._overlay.saving() as is_outermost:
                if not is_outermost:
                    return original(*args, **kwargs)
                return self._save(original, saver, args, kwargs)

        return saving

    def _save(
        self,
        original: Callable[..., Any],
        saver: _Saver,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Into the folder; where the disk is full, nowhere."""
        path, mapped, named = None, args, kwargs
        if saver.argument is not None:
            path = _argument(args, kwargs, *saver.argument)
            mapped, named = self._mapped(
                args,
                kwargs,
                *saver.argument,
                lambda p: self._overlay.to_write(p, is_tree=saver.is_tree),
            )
        try:
            if _is_upload(path) or not self._overlay.has_room():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            found = original(*mapped, **named)
        except Exception as error:
            if not _is_full(error):
                raise
            self._saves.suppressed[saver.name] += 1
            return saver.answer(*args, **kwargs)
        self._saves.counts[saver.name] += 1
        self._overlay.note_saved(found if saver.argument is None else path)
        return found

    def _inside(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def written(*args: Any, **kwargs: Any) -> Any:
            with self._overlay.saving():
                return original(*args, **kwargs)

        return written

    def _writing_files(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The path that is returned is the one that the script knows."""

        @functools.wraps(original)
        def written(*args: Any, **kwargs: Any) -> Any:
            prefix = _argument(args, kwargs, 1, "file_prefix")
            mapped, named = self._mapped(args, kwargs, 1, "file_prefix", self._overlay.to_write)
            found = original(*mapped, **named)
            is_redirected = _argument(mapped, named, 1, "file_prefix") != prefix
            return os.fsdecode(prefix) if is_redirected else found

        return written

    def _reading(self, place: int, name: str) -> Callable[[Any], Any]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def read(*args: Any, **kwargs: Any) -> Any:
                args, kwargs = self._mapped(
                    args, kwargs, place, name, lambda path: self._overlay.to_read(path, ".index")
                )
                return original(*args, **kwargs)

            return read

        return make

    @staticmethod
    def _mapped(
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        place: int,
        name: str,
        redirect: Callable[[Any], Any],
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with another path; what is no path stays."""
        path = _argument(args, kwargs, place, name)
        if not isinstance(path, str | bytes | os.PathLike):
            return args, kwargs
        if name in kwargs:
            return args, {**kwargs, name: redirect(path)}
        return (*args[:place], redirect(path), *args[place + 1 :]), kwargs


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs.get(name)


def _is_upload(path: Any) -> bool:
    """Keras takes it by its name only: such a model has no other place."""
    return str(path).startswith("hf://")


def _is_full(error: Exception) -> bool:
    return getattr(error, "errno", None) in _FULL or any(text in str(error) for text in _FULL_TEXTS)


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


# By module: what is redirected. Module functions are replaced where others look them up at call
# time, because the public names (``keras.saving.save_model``, ``tf.saved_model.save``) are copies
# made at import.
_SAVERS: Final[dict[str, dict[str, _Saver]]] = {
    KERAS_MODEL: {
        "Model.save": _Saver("Model.save"),
        "Model.save_weights": _Saver("Model.save_weights"),
        "Model.export": _Saver("Model.export", is_tree=True),
    },
    KERAS_SAVING: {
        "save_model": _Saver("keras.saving.save_model"),
        "save_weights_only": _Saver("keras.saving.save_weights"),
    },
    KERAS_LEGACY_SAVING: {
        "save_model_to_hdf5": _Saver("keras.saving.save_model"),
    },
    TF_SAVED_MODEL: {
        "save_and_return_nodes": _Saver(
            "tf.saved_model.save",
            (1, "export_dir"),
            is_tree=True,
            answer=lambda *_a, **_k: ([], {}),
        ),
    },
    TF_CHECKPOINT: {
        "Checkpoint.write": _Saver("Checkpoint.write", None, answer=_written),
        "Checkpoint.save": _Saver("Checkpoint.save", None, answer=_numbered),
    },
    TF_CHECKPOINT_MANAGEMENT: {
        "CheckpointManager.save": _Saver("CheckpointManager.save", None, answer=_managed),
    },
}
# What is only counted: it would delete at the end what an interrupted training is to go on from.
_SUPPRESSED: Final = {
    KERAS_BACKUP: {
        "BackupAndRestore._save_model": "BackupAndRestore",
        "BackupAndRestore.on_train_end": "BackupAndRestore",
    },
}
