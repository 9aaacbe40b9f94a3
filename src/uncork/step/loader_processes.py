"""Batches of a ``PyDataset`` made by processes: Python that computes holds the interpreter's lock.

Keras's own threads ask for the batches in their order; each hands what it was asked to a process
that was forked from this one, and waits. A process has the loader as it was when the process began,
so new ones begin with each epoch, and wherever an attribute of the loader is set.

Forked processes would all draw the same random numbers. So a batch of a loader that draws is made
from the random states that this process has when it is asked for, which then moves on to others.
"""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from types import FrameType
from typing import Any, Final

from uncork.watch import Draws, libraries_of, reached

_FORK: Final = "fork"
# Their code may run in a forked process: they start no threads, and lock nothing for long.
_SAFE: Final = frozenset({"numpy", "PIL", "pandas"}) | sys.stdlib_module_names
# What pandas keeps columns in where it is there; it has threads.
_WITH_THREADS: Final = "pyarrow"
# Seconds between two looks of a process at whether the one that it works for is still there.
_LOOK_S: Final = 1.0
# Who asks for a batch in Keras's threads, and how far up at most; others get it made at once.
_KERAS_ASKS: Final = "get_index"
_FAR: Final = 2
_CLOSE: Final = "_uncork_close"


def why_not_forked(dataset: Any) -> str:
    """Why a loader's batches cannot be made in forked processes, as part of a sentence; or ``""``.

    A process that is forked from one with threads has none of these, and whatever they had locked
    stays so: TensorFlow's own, and those of other libraries. The code of a loader may use Python's
    library, NumPy, PIL and pandas.

    Example:
        >>> import keras
        >>> class Numbers(keras.utils.PyDataset):
        ...     def __getitem__(self, index):
        ...         return index
        >>> why_not_forked(Numbers())
        ''
    """
    if _FORK not in multiprocessing.get_all_start_methods() or sys.platform == "darwin":
        return "processes cannot be forked here"
    used = libraries_of(dataset)
    other = sorted(used - _SAFE)
    if other:
        return f"its code uses {', '.join(other)}, which may hang in a forked process"
    if "pandas" in used and _WITH_THREADS in sys.modules:
        return f"its code uses pandas, and that {_WITH_THREADS}, which may hang in a forked process"
    return ""


class Makers:
    """Processes that make batches of a loader as it is now.

    Args:
        make: Called there with the index of a batch.
        processes: How many.
        generators: From which it draws, beside the global ones; None where it draws nothing.

    Raises:
        OSError: None can be started.
    """

    def __init__(
        self, make: Callable[[int], Any], processes: int, generators: Sequence[Any] | None = None
    ) -> None:
        self._generators = generators
        context = multiprocessing.get_context(_FORK)
        given = make, None if generators is None else Draws(generators), os.getpid()
        self._pool = ProcessPoolExecutor(processes, context, _begin, given)
        self._pool.submit(int)  # they begin with the first that is asked of them

    def ask(self, index: Any) -> Future[Any]:
        """A batch; one after the other, where it draws."""
        if self._generators is None:
            return self._pool.submit(_made, index)
        draws = Draws(self._generators)
        draws.move_on()
        return self._pool.submit(_drawn, index, draws.held)

    def close(self) -> None:
        """End the processes; what was asked for and not begun is dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class InProcesses:
    """What makes the batches of one loader, epoch after epoch.

    Where a process is killed, or a batch cannot be handed over, it is made here, and so are all
    later ones: a training is not to end for that. An error of the loader's is met again here, where
    its traceback is whole.

    Args:
        dataset: Of the user's class.
        processes: How many.
        draws: It draws random numbers.
    """

    def __init__(self, dataset: Any, processes: int, *, draws: bool) -> None:
        self._class: Any = type(dataset)
        self._processes = processes
        self._draws = draws
        self._makers: Makers | None = None
        self._changing = threading.Lock()
        self._failed = False

    def methods(self) -> dict[str, Any]:
        """Of the class that has its batches made elsewhere; at the end of an epoch, close it."""
        class_ = self._class

        @functools.wraps(class_.__getitem__)
        def __getitem__(loader: Any, index: Any) -> Any:  # noqa: N807
            if self._failed or not _asked_by_keras(sys._getframe(1)):
                return class_.__getitem__(loader, index)
            return self._batch(loader, index)

        def __setattr__(loader: Any, name: str, value: Any) -> None:  # noqa: N807
            class_.__setattr__(loader, name, value)
            if _make is None:  # not in one of the processes
                self.close()

        return {
            "__getitem__": __getitem__,
            "__setattr__": __setattr__,
            _CLOSE: lambda _: self.close(),
        }

    def close(self) -> None:
        """End the processes; the next batch begins others."""
        with self._changing:
            makers, self._makers = self._makers, None
        if makers is not None:
            makers.close()

    def _batch(self, loader: Any, index: Any) -> Any:
        make = functools.partial(self._class.__getitem__, loader)
        try:
            return self._asked(loader, make, index).result()
        except CancelledError:  # the loader was changed meanwhile
            return make(index)
        except Exception:  # its own error, which is met here again, or one of the processes'
            made = make(index)
        if not self._failed:
            self._failed = True
            warnings.warn(
                f"uncork: a process that makes batches of {self._class.__name__} has failed; they "
                "are made in this one from here on",
                stacklevel=2,
            )
        return made

    def _asked(self, loader: Any, make: Callable[[int], Any], index: Any) -> Future[Any]:
        with self._changing:
            if self._makers is None:
                generators = reached(loader).generators if self._draws else None
                self._makers = Makers(make, self._processes, generators)
            return self._makers.ask(index)


def end_processes(dataset: Any) -> None:
    """End those that make batches of a loader, if there are any."""
    close = getattr(dataset, _CLOSE, None)
    if close is not None:
        close()


def _asked_by_keras(frame: FrameType | None) -> bool:
    """By itself, or through what a proof has put around the loader."""
    for _ in range(_FAR):
        if frame is not None and frame.f_code.co_name == _KERAS_ASKS:
            return True
        frame = frame.f_back if frame is not None else None
    return False


# In a process that makes batches: with what, and what it draws from.
_make: Callable[[int], Any] | None = None
_draws: Draws | None = None


def _begin(make: Callable[[int], Any], draws: Draws | None, parent: int) -> None:
    global _make, _draws
    _make, _draws = make, draws
    gc.freeze()  # to collect what is shared would be to write, and so to copy, all of it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """A parent that was killed has told nobody."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)


def _made(index: Any) -> Any:
    assert _make is not None
    return _make(index)


def _drawn(index: Any, states: tuple[Any, ...]) -> Any:
    assert _draws is not None
    _draws.take(states)
    return _made(index)
