"""Processes that are forked to make batches, with a loader as it is at that moment.

A forked process has one thread, the memory of the process that it comes from, and all that this
had: handlers of signals, random states, objects that only the garbage collector would still end.
None of that is its own, and it touches nothing of it.
"""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any, Final

from uncork.pycode.purity.random_draws import PythonRandomStates

FORK_METHOD: Final = "fork"
# Seconds between two looks of a process at whether the one that it works for is still there.
_LOOK_S: Final = 1.0
# What a process may take to end by itself: it finishes the batch that it makes.
_GRACE_S: Final = 10.0

MakeBatch = Callable[[int], Any]


class BatchWorkers:
    """Processes that make batches.

    Args:
        make: Called there with the index of a batch.
        processes: How many.
        generators: From which it may draw, beside the global ones.
        is_random: It does: each batch gets states of its own. Otherwise none may be drawn from.

    Raises:
        Exception: They cannot be started; none is left then.
    """

    def __init__(
        self,
        make: MakeBatch,
        processes: int,
        generators: Sequence[Any] = (),
        *,
        is_random: bool = False,
    ) -> None:
        self._draws = PythonRandomStates(generators)
        self._ask = self._ask_in_turn if is_random else functools.partial(_submitted, _made)
        context = multiprocessing.get_context(FORK_METHOD)
        given = make, self._draws, os.getpid()
        self._pool = ProcessPoolExecutor(processes, context, _begin, given)
        try:
            with self._draws.hold_locks():
                self._pool.submit(int)  # they begin with the first that is asked of them
            # Of one that is killed while it hands something over the end is seen only so.
            self._pool._result_queue._writer.close()  # type: ignore[attr-defined]
        except BaseException:
            begun = list(self._pool._processes.values())
            self.close(is_immediate=True)
            for process in begun:  # there is nobody else to do it
                process.join()
            raise

    def submit(self, index: Any) -> Future[tuple[bool, Any]]:
        """Whether a batch was made as promised, and if so the batch.

        To be called by one thread at a time.
        """
        return self._ask(self._pool, index)

    def close(self, *, is_immediate: bool = False) -> None:
        """End the processes; what was asked for and not begun is dropped.

        Args:
            is_immediate: They are not waited for.
        """
        processes = list((getattr(self._pool, "_processes", None) or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        left, deadline = {p.sentinel: p for p in processes}, time.monotonic() + _GRACE_S
        while left and not is_immediate and time.monotonic() < deadline:
            for ended in wait(list(left), timeout=_LOOK_S):
                del left[ended]
        for process in left.values():
            process.kill()

    def _ask_in_turn(self, pool: ProcessPoolExecutor, index: Any) -> Future[Any]:
        states = self._draws.current_states()
        self._draws.advance_states()
        return pool.submit(_drawn, index, states)


def _submitted(make: Any, pool: ProcessPoolExecutor, index: Any) -> Future[Any]:
    return pool.submit(make, index)


# In a process that makes batches: with what, what it may draw from, whether an attribute was set.
_make: MakeBatch | None = None
_draws = PythonRandomStates(())
_changed = False


def is_batch_worker() -> bool:
    """This process is one of them."""
    return _make is not None


def note_loader_change() -> None:
    """In one of them: making a batch has changed the loader, which nobody else will see."""
    global _changed  # noqa: PLW0603 - of a process that does nothing else
    _changed = True


def _begin(make: MakeBatch, draws: PythonRandomStates, parent: int) -> None:
    global _make, _draws
    _make, _draws = make, draws
    draws.release_locks()
    # What the other process has not collected yet may have threads that are not here; and to
    # collect what is shared is to write, and so to copy, all of it.
    gc.freeze()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):  # the script's
            with suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the other's business
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """A parent that was killed has told nobody."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)


def _made(index: Any) -> tuple[bool, Any]:
    before = pickle.dumps(_draws.current_states())
    batch = _alone(index)
    is_alone = not _changed and pickle.dumps(_draws.current_states()) == before
    return is_alone, batch if is_alone else None


def _drawn(index: Any, states: tuple[Any, ...]) -> tuple[bool, Any]:
    _draws.set_states(states)
    batch = _alone(index)
    return not _changed, None if _changed else batch


def _alone(index: Any) -> Any:
    global _changed  # noqa: PLW0603 - of a process that does nothing else
    assert _make is not None
    _changed = False
    return _make(index)
