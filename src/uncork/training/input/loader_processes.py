"""Batches of a ``PyDataset`` made by processes: Python that computes holds the interpreter's lock.

Keras's own threads ask for the batches in their order; each hands what it was asked to a process
that was forked from this one, and waits. A process has the loader as it was when the process began,
so new ones begin with each epoch, and wherever an attribute of the loader is set.

Forked processes would all draw the same random numbers. So a batch of a loader that draws is made
from the random states that this process has when it is asked for, which then moves on to others.
"""

from __future__ import annotations

import functools
import multiprocessing
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from types import FrameType
from typing import Any, Final

from uncork.compat.keras3.data_adapters import GET_INDEX
from uncork.pycode.purity.reachability import find_reachable
from uncork.training.input.forked_workers import (
    FORK_METHOD,
    BatchWorkers,
    MakeBatch,
    is_batch_worker,
    note_loader_change,
)

# Their code may run in a forked process: they start no threads, and lock nothing for long.
_SAFE: Final = frozenset({"numpy", "PIL", "pandas"}) | sys.stdlib_module_names
# What pandas keeps columns in where it is there; it has threads.
_WITH_THREADS: Final = "pyarrow"
# How far up at most the function of Keras is that asks for a batch; others get it made at once.
_FAR: Final = 2
# Seconds after which a batch is not waited for any more: its process hangs.
_PATIENCE_S: Final = 300.0
# How often processes may begin in an epoch whose callbacks set attributes of the loader.
_MOST_BEGUN: Final = 3
# Simple values; that they are what they were before can be told at once.
_PLAIN: Final = (int, float, str, bytes, bool, type(None))


def fork_refusal(dataset: Any) -> str:
    """Why a loader's batches cannot be made in forked processes, as part of a sentence; or ``""``.

    A process that is forked from one with threads has none of these, and whatever they had locked
    stays so: TensorFlow's own, and those of other libraries. The code of a loader may use Python's
    library, NumPy, PIL and pandas.

    Example:
        >>> import keras
        >>> dataset = keras.utils.PyDataset()
        >>> fork_refusal(dataset)
        ''
        >>> dataset.model = keras.Sequential()
        >>> "may hang in a forked process" in fork_refusal(dataset)
        True
    """
    return next(_reasons(dataset), "")


def _reasons(dataset: Any) -> Iterator[str]:
    if FORK_METHOD not in multiprocessing.get_all_start_methods() or sys.platform == "darwin":
        yield "this system cannot fork processes safely"
    if multiprocessing.current_process().daemon:
        yield "this process is a daemon, which may not start processes"
    if GET_INDEX is None:
        yield (
            "the threads of this Keras release request batches in a way that Uncork does not know"
        )
    found = find_reachable(dataset)
    if not found.digest:
        yield "the loader holds an object that Uncork cannot inspect"
    if found.has_own_state:
        yield (
            "a function of the loader caches its results, and each process would have a cache "
            "of its own"
        )
    used = found.library_names
    other = sorted(used - _SAFE)
    if other:
        yield f"the code of the loader uses {', '.join(other)}, which may hang in a forked process"
    if "pandas" in used and _WITH_THREADS in sys.modules:
        yield (
            f"the code of the loader uses pandas, pandas uses {_WITH_THREADS}, and "
            f"{_WITH_THREADS} may hang in a forked process"
        )


class ProcessLoader:
    """What makes the batches of one loader, epoch after epoch.

    Where a process is killed or hangs, a batch cannot be handed over, or making one has drawn or
    changed what it did not when it was looked at, it is made here, and so are all later ones: a
    training is not to end for that. An error of the loader's is met again here, where its traceback
    is whole.

    Args:
        dataset: Of the user's class.
        processes: How many.
        is_random: It draws random numbers.
    """

    def __init__(self, dataset: Any, processes: int, *, is_random: bool) -> None:
        self._class: Any = type(dataset)
        self._processes = processes
        self._draws = is_random
        self._makers: BatchWorkers | None = None
        self._changing = threading.Lock()
        self._begun = 0
        self._failed = False

    def methods(self) -> dict[str, Any]:
        """The methods of the derived class whose batches are loaded in processes."""
        class_ = self._class

        @functools.wraps(class_.__getitem__)
        def __getitem__(loader: Any, index: Any) -> Any:  # noqa: N807
            if self._failed or is_batch_worker() or not _asked_by_keras(sys._getframe(1)):
                return class_.__getitem__(loader, index)
            return self._batch(loader, index)

        def __setattr__(loader: Any, name: str, value: Any) -> None:  # noqa: N807
            before = vars(loader).get(name, self)
            class_.__setattr__(loader, name, value)
            if not isinstance(getattr(class_, name, None), property):  # that sets others
                self._changed(before, value)

        def __delattr__(loader: Any, name: str) -> None:  # noqa: N807
            class_.__delattr__(loader, name)
            self._changed(name, None)

        made = (__getitem__, __setattr__, __delattr__)
        return {f.__name__: f for f in made} | {end_processes.__name__: lambda _: self.close()}

    def close(self) -> None:
        """End the processes of an epoch."""
        self._end()
        self._begun = 0

    def _changed(self, before: Any, value: Any) -> None:
        """An attribute of the loader had this value before, and has that one now."""
        if is_batch_worker():
            note_loader_change()
        elif before is not value and not _are_equal(before, value):
            self._end()

    def _end(self) -> None:
        with self._changing:
            makers, self._makers = self._makers, None
        if makers is not None:
            makers.close()

    def _batch(self, loader: Any, index: Any) -> Any:
        make = functools.partial(self._class.__getitem__, loader)
        makers: BatchWorkers | None = None
        try:
            makers, asked = self._asked(loader, make, index)
            as_promised, batch = asked.result(_PATIENCE_S) if asked else (False, None)
        except CancelledError:  # the loader was changed meanwhile
            return make(index)
        except _UnseenError as error:
            self._fail(makers, str(error))
            return make(index)
        except Exception:  # its own error, which is met here again, or one of the processes'
            made = make(index)
            self._fail(makers, "a worker process hangs, failed or was killed")
            return made
        if as_promised:
            return batch
        if asked is not None:
            self._fail(
                makers, "a batch uses random numbers or changes state, and earlier batches did not"
            )
        return make(index)

    def _asked(
        self, loader: Any, make: MakeBatch, index: Any
    ) -> tuple[BatchWorkers | None, Future[tuple[bool, Any]] | None]:
        """None where they are to be made here: processes have failed, or begun too often."""
        with self._changing:
            if self._failed or (self._makers is None and self._begun >= _MOST_BEGUN):
                return None, None
            if self._makers is None:
                self._begun += 1
                found = find_reachable(loader)
                if not found.digest:
                    raise _UnseenError("the loader holds an object that Uncork cannot inspect")
                self._makers = BatchWorkers(
                    make, self._processes, found.generators, is_random=self._draws
                )
            return self._makers, self._makers.submit(index)

    def _fail(self, makers: BatchWorkers | None, why: str) -> None:
        """Unless those that were asked have been ended meanwhile, as the loader was changed."""
        with self._changing:
            if self._failed or makers is not self._makers:
                return
            self._failed, self._makers = True, None
        if makers is not None:
            makers.close(is_immediate=True)
        name = self._class.__name__
        said = f"uncork: the main process loads the batches of {name} from here on: {why}"
        try:
            warnings.warn(said, stacklevel=2)
        except Warning:  # where these are errors: the training goes on all the same
            sys.stderr.write(f"{said}\n")


class _UnseenError(Exception):
    """What a loader draws from is not known any more."""


def end_processes(dataset: Any) -> None:
    """End the worker processes of a loader, if there are any."""
    close = getattr(dataset, end_processes.__name__, None)
    if close is not None:
        close()


def _asked_by_keras(frame: FrameType | None) -> bool:
    """By itself, or through what a proof has put around the loader."""
    for _ in range(_FAR):
        if frame is not None and frame.f_code is GET_INDEX:
            return True
        frame = frame.f_back if frame is not None else None
    return False


def _are_equal(before: Any, value: Any) -> bool:
    return type(before) is type(value) and isinstance(value, _PLAIN) and bool(before == value)
