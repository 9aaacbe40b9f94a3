"""Checkpoints of a ``fit`` are written by a thread, while the training goes on.

What a ``ModelCheckpoint`` saves is copied when it is called
(:mod:`uncork.training.callbacks.checkpoint_copy`); the
copies are written to a file beside the one that is meant, which is renamed when it is complete: no
half file is ever to be seen, and a killed process leaves the checkpoint before it whole. Keras
truncates that first.

Who may look at the file finds it complete. Callbacks that are not known to leave files alone wait
for it at each of their hooks, and so do the next save and the end of the ``fit``, however it ends.
What cannot be written beside the training is written again from the copies at the callback's next
hook, the way Keras writes it, and raises there what Keras raises.
"""

from __future__ import annotations

import functools
import inspect
import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import keras

from uncork.compat.keras3.saving import SAVE, Saver, is_remote_path, saver, wrapped_savers
from uncork.training.callbacks.checkpoint_copy import CheckpointCopy, CopyBuffers

# Hooks of the class that are exchanged on the instance.
_EXCHANGED: Final = (SAVE, "on_train_batch_end", "on_train_end")
# Of Keras's own, those that read no file which a checkpoint may be.
_INDIFFERENT: Final = (
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.History,
    keras.callbacks.ProgbarLogger,
    keras.callbacks.EarlyStopping,
    keras.callbacks.ReduceLROnPlateau,
    keras.callbacks.TerminateOnNaN,
    keras.callbacks.CSVLogger,
    keras.callbacks.TensorBoard,
    keras.callbacks.SwapEMAWeights,
)
# What a schedule may call or look up, and does nothing but compute by it.
_COMPUTING: Final = frozenset({
    *("math", "np", "numpy", "keras", "ops", "tf", "float", "int", "min", "max", "abs", "round"),
    *("exp", "cos", "pow", "power", "sqrt", "pi", "floor", "log"),
})  # fmt: skip
_NUMBERS: Final = (int, float, bool)
_AFTER_TRAINING: Final = ("on_train_end",)
_HOOKS: Final = (
    *("on_epoch_begin", "on_epoch_end", "on_batch_begin", "on_batch_end"),
    *("on_train_batch_begin", "on_train_batch_end", "on_test_begin", "on_test_end"),
    *("on_test_batch_begin", "on_test_batch_end", *_AFTER_TRAINING),
)


def find_async_checkpoints(callbacks: Any) -> list[Any]:
    """The checkpoint callbacks of a ``fit`` whose files can be written asynchronously.

    That is Keras's own class, not one made of it, which may look at the file itself; and Keras 3's
    formats, not the older ``.h5`` of whole models. ``BackupAndRestore`` writes a second file that
    must fit the first one, and is left as it is.

    Example:
        >>> found = find_async_checkpoints([keras.callbacks.ModelCheckpoint("model.keras")])
        >>> [callback.filepath for callback in found]
        ['model.keras']
    """
    return [
        callback
        for callback in _listed(callbacks)
        if type(callback) is keras.callbacks.ModelCheckpoint
        and not vars(callback).keys() & set(_EXCHANGED)
        and (callback.save_weights_only or callback.filepath.endswith(".keras"))
    ]


def has_own_save(model: Any) -> bool:
    """The model overrides ``save``, which may read the file or pass it on.

    Example:
        >>> has_own_save(keras.Sequential())
        False
    """
    names, kind = {"save", "save_weights"}, type(model)
    of_the_user_s = kind.__mro__[: kind.__mro__.index(keras.Model)]
    own = {k for c in of_the_user_s if not c.__module__.startswith("keras.") for k in vars(c)}
    return bool(names & {*own, *vars(model)})


def keras_saver(callback: Any) -> Saver:
    """Keras's function that writes a checkpoint, also while saves are suppressed."""
    return saver(weights_only=bool(callback.save_weights_only))


def waiting_callback_name(callbacks: Any) -> str:
    """The first callback that would wait for the writing as soon as it has begun; ``""`` if none.

    One that acts at the end of an epoch before the checkpoint does finds the file of the epoch
    before, complete for long.
    """
    saves_so_far = False
    saving = find_async_checkpoints(callbacks)
    for callback in _listed(callbacks):
        saves_so_far = saves_so_far or any(callback is each for each in saving)
        hooks = set(_waiting(callback)) - {*_AFTER_TRAINING}
        if hooks - {"on_epoch_end"} or (hooks and saves_so_far):
            return type(callback).__name__
    return ""


class AsyncCheckpoints:
    """The checkpoints of one ``fit``, written while the training continues.

    Args:
        callbacks: As given to ``fit``.
        checkpoints: Those of :func:`find_async_checkpoints`; of none, nothing is done.

    Attributes:
        callbacks: What is to be given to ``fit`` instead.
        checkpoints: As ``checkpoints``.
    """

    def __init__(self, callbacks: Any, checkpoints: list[Any]) -> None:
        self.callbacks = callbacks
        self.checkpoints = checkpoints
        self._beside = [_Checkpoint(callback) for callback in checkpoints]
        if checkpoints:
            self.callbacks = []
            for callback in _listed(callbacks):
                hooks = _waiting(callback)
                self.callbacks += [self._waits(hooks), callback] if hooks else [callback]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Write beside what is trained inside the block; all files are complete at its end.

        Raises:
            OSError: A file could not be written; whatever else Keras raises then. Where something
                else is raised already, it is told on standard error.
        """
        for each in self._beside:
            each.put_in_force()
        try:
            yield
        except BaseException:
            for each in self._beside:
                each.end(tell=True)
            raise
        for each in self._beside:
            each.end()

    def _waits(self, hooks: list[str]) -> Any:
        """A callback that is called just before one that may look at files, and waits for them."""

        def wait(_: Any, *_args: Any, **_kwargs: Any) -> None:
            for each in self._beside:
                each.wait()

        named = dict.fromkeys(hooks, wait)
        return type("WaitForCheckpoint", (keras.callbacks.Callback,), named)()


class BackgroundWriter:
    """Writes one checkpoint after the other in a thread; each waits for the one before.

    Attributes:
        buffers: Where copies are laid; free once :meth:`wait` has returned.
    """

    def __init__(self) -> None:
        self.buffers = CopyBuffers()
        self._thread: threading.Thread | None = None
        self._failed: Callable[[], None] | None = None

    @property
    def has_failed(self) -> bool:
        """The last one could not be written; :meth:`wait` raises why."""
        return self._failed is not None

    def start(self, checkpoint_copy: CheckpointCopy, path: Path) -> None:
        """Write copies to a file.

        Args:
            checkpoint_copy: What to write.
            path: Replaced when the file is complete.

        Raises:
            OSError: The one before could not be written, nor can it be now.
        """
        self.wait()
        # Not a daemon: the end of the interpreter waits for it.
        self._thread = threading.Thread(
            target=self._write, args=(checkpoint_copy, path), name="uncork-checkpoint"
        )
        self._thread.start()

    def wait(self) -> None:
        """Until the file is complete.

        Raises:
            OSError: What Keras raises for it.
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.join()
            except BaseException:
                self._thread = thread  # interrupted: whoever comes next waits for it
                raise
        again, self._failed = self._failed, None
        if again is not None:
            again()

    def _write(self, copied: CheckpointCopy, path: Path) -> None:
        unfinished = path.with_name(f".{path.name}.uncork-unfinished")
        try:
            copied.write(unfinished)
            if path.exists():
                shutil.copymode(path, unfinished)
            unfinished.replace(path)
        except BaseException:  # as on a disk that has room for one of the two files
            with suppress(OSError):
                unfinished.unlink()
            self._failed = functools.partial(copied.write, path)


class _Checkpoint:
    """A ``ModelCheckpoint`` whose files are written asynchronously."""

    def __init__(self, callback: Any) -> None:
        self._callback = callback
        self._writing = BackgroundWriter()
        self.wait = self._writing.wait
        self._own = {name: getattr(callback, name) for name in _EXCHANGED}

    def put_in_force(self) -> None:
        """Until :meth:`end`."""
        given = (self._save, self._batch_end, self._train_end)
        vars(self._callback).update(zip(_EXCHANGED, given, strict=True))

    def end(self, *, tell: bool = False) -> None:
        """Wait, and leave the callback as it was.

        Args:
            tell: Something else is raised already: what goes wrong here is only told.
        """
        for name in _EXCHANGED:
            vars(self._callback).pop(name, None)
        try:
            self._writing.wait()
        except Exception as error:
            if not tell:
                raise
            sys.stderr.write(f"uncork: cannot write a checkpoint: {error}\n")

    def _save(self, *args: Any, **kwargs: Any) -> Any:
        if self._writing.has_failed:
            self._writing.wait()
        if has_own_save(self._callback.model):
            self._writing.wait()
            return self._own[SAVE](*args, **kwargs)
        with wrapped_savers(self._copying):
            return self._own[SAVE](*args, **kwargs)

    def _copying(self, save: Saver, weights_only: bool) -> Saver:
        owner = threading.get_ident()

        @functools.wraps(save)
        def begin(model: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != owner:  # somebody else's save, not the callback's
                return save(model, filepath, *args, **kwargs)
            self._writing.wait()
            copied = None
            if model is self._callback.model and is_replaceable_file(filepath):
                # What cannot be copied is saved on the spot, and raises there what it raises.
                with suppress(Exception):
                    copied = CheckpointCopy(
                        model, save, weights_only=weights_only, buffers=self._writing.buffers
                    )
            if copied is None:
                return save(model, filepath, *args, **kwargs)
            self._writing.start(copied, Path.cwd() / filepath)
            return None

        return begin

    def _batch_end(self, *args: Any, **kwargs: Any) -> None:
        if self._writing.has_failed:
            self._writing.wait()
        self._own["on_train_batch_end"](*args, **kwargs)

    def _train_end(self, *args: Any, **kwargs: Any) -> None:
        self._writing.wait()
        self._own["on_train_end"](*args, **kwargs)


def is_replaceable_file(path: Any) -> bool:
    """Renaming another file to it is the same as writing it: no link, no device, nobody else's.

    Args:
        path: Where Keras would write.
    """
    if is_remote_path(str(path)) or "://" in str(path):
        return False
    path = Path.cwd() / path
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return False
    try:
        found = path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    own = found.st_uid == os.geteuid() and os.access(path, os.W_OK)
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and own


def _listed(callbacks: Any) -> list[Any]:
    """Nothing of a ``CallbackList``, into which nobody puts others."""
    if callbacks is None or isinstance(callbacks, keras.callbacks.CallbackList):
        return []
    return list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]


def _only_computes(callback: Any) -> bool:
    """A schedule of the learning rate that calls nothing which could read a file."""
    if type(callback) is not keras.callbacks.LearningRateScheduler:
        return False
    schedule = callback.schedule
    if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        return type(schedule).__module__.startswith("keras.")
    code = getattr(schedule, "__code__", None)
    if code is None or any(hasattr(each, "co_code") for each in code.co_consts):
        return False
    known = inspect.getclosurevars(schedule)
    numbers = {k for k, v in {**known.nonlocals, **known.globals}.items() if type(v) in _NUMBERS}
    return {*code.co_names, *code.co_freevars} <= _COMPUTING | numbers


def _waiting(callback: Any) -> list[str]:
    """Hooks at which a callback may look at files."""
    if type(callback) in _INDIFFERENT or _only_computes(callback):
        return []
    plain = keras.callbacks.Callback
    backup = type(callback) is keras.callbacks.BackupAndRestore
    idle = ("on_train_batch_end",) if backup and callback.save_freq == "epoch" else ()
    return [
        hook
        for hook in _HOOKS
        if hook not in idle
        if hook in vars(callback) or getattr(type(callback), hook) is not getattr(plain, hook)
    ]
