"""What a user's own callbacks take before and after an epoch: called for some epochs, last of all.

They may change what no snapshot holds: which layers learn, how the model is compiled, other models
of the script's. So nothing is measured behind them, and they may be cut short. Python that would
write or send raises an error, as for hooks of batches. TensorFlow and what is open already write
without a word: so a hook is not called at all where its code names anything that writes, where it
holds an open file or a connection, or calls a library that nobody knows to hold none.
"""

from __future__ import annotations

import io
import signal
import socket
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from uncork.compat.tf.functions import total_tracing_s
from uncork.core.evidence.callbacks import CallbackCost
from uncork.pycode.purity.code_objects import is_user_class
from uncork.pycode.purity.reachability import find_reachable, find_reachable_from_function
from uncork.pycode.purity.side_effects import note_side_effects
from uncork.training.callbacks.batch_hooks import (
    hook_locations,
    is_lambda_callback,
    list_callbacks,
    user_hooks,
)

_HOOKS: Final = ("on_epoch_begin", "on_epoch_end")
# Epochs that are begun and ended, so that one that acts in every tenth acts; and seconds for that.
_EPOCHS: Final = 11
_SECONDS: Final = 3.0
# When they are cut short, and again, should the first time have been caught.
_MOST_S: Final = 20.0
_AGAIN_S: Final = 2.0
# Packages whose functions compute, and keep no file and no connection open. Of streams it is asked
# which there are: a model, too, is made of them when it is looked into.
_COMPUTING: Final = frozenset({
    "PIL", "_io", "abc", "builtins", "collections", "contextlib", "copy", "dataclasses", "datetime",
    "enum", "functools", "gc", "itertools", "json", "keras", "logging", "math", "numpy", "operator",
    "os", "pandas", "pathlib", "random", "re", "scipy", "sklearn", "statistics", "string", "sys",
    "tensorflow", "textwrap", "time", "types", "typing", "warnings",
})  # fmt: skip
_DEPTH: Final = 3
# Parts of names by which files are written that Python knows nothing of.
_WRITING: Final = (
    "checkpoint", "export", "gfile", "memmap", "recordwriter", "save", "send", "summary", "write",
)  # fmt: skip


class _TimeIsUpError(BaseException):
    pass


def measure_epoch_callback_costs(
    callbacks: Any, model: Any, arguments: Mapping[str, Any]
) -> tuple[CallbackCost, ...]:
    """Time those that can be tried, in a process that ends with that.

    Args:
        callbacks: As given to ``fit``.
        model: Built; what they change of its variables is the caller's to give back.
        arguments: Of the ``fit``.
    """
    found = []
    for callback in list_callbacks(callbacks):
        own = is_user_class(type(callback)) or is_lambda_callback(callback)
        if own and any(user_hooks(callback, _HOOKS)) and not _beyond(callback):
            taken, longer = _taken(callback, model, arguments)
            # Without the first one, in which functions are traced and data are read.
            seconds = statistics.fmean(taken[1:] or taken) if taken else 0.0
            if seconds > 0:
                found.append(
                    CallbackCost(
                        name=type(callback).__name__,
                        epoch_s=seconds,
                        epoch_hook_at=next(hook_locations(callback, _HOOKS), None),
                        is_lower_bound=longer,
                    )
                )
    return tuple(found)


def _taken(callback: Any, model: Any, arguments: Mapping[str, Any]) -> tuple[list[float], bool]:
    """Seconds of each epoch that there was time for, and that the training has.

    Returns:
        With whether the first one was cut short.
    """
    stops, taken = getattr(model, "stop_training", False), list[float]()
    began = time.perf_counter()
    try:
        with _cut_short(), note_side_effects(forbid=True):
            callback.set_model(model)
            for seconds in _epochs(callback, model, arguments):
                taken.append(seconds)
                if time.perf_counter() - began > _SECONDS:
                    break
    except KeyboardInterrupt:
        raise
    except _TimeIsUpError:
        if not taken:
            return [time.perf_counter() - began], True
    except BaseException:  # whoever leaves by sys.exit leaves the training, and not this look at it
        return taken, False
    finally:
        model.stop_training = stops
    return taken, False


def _epochs(callback: Any, model: Any, arguments: Mapping[str, Any]) -> Iterator[float]:
    first = int(arguments.get("initial_epoch") or 0)
    epochs = int(arguments.get("epochs") or 1)
    names = ["loss", *getattr(model, "metrics_names", ())]
    callback.set_params({"verbose": 0, "epochs": epochs, "steps": None})
    callback.on_train_begin()
    for number in range(first, min(epochs, first + _EPOCHS)):
        logs = _Logs((key, 1.0) for name in names for key in (name, f"val_{name}"))
        begin, traced_s = time.perf_counter(), total_tracing_s()
        callback.on_epoch_begin(number, {})
        callback.on_epoch_end(number, logs)
        yield time.perf_counter() - begin - (total_tracing_s() - traced_s)


@contextmanager
def _cut_short() -> Iterator[None]:
    """On the thread that gets signals, and where nobody else uses that one."""
    alarm = getattr(signal, "SIGALRM", None)
    here = threading.current_thread() is threading.main_thread()
    if alarm is None or not here or signal.getsignal(alarm) is not signal.SIG_DFL:
        yield
        return

    def time_is_up(number: int, frame: Any) -> None:
        raise _TimeIsUpError

    signal.signal(alarm, time_is_up)
    signal.setitimer(signal.ITIMER_REAL, _MOST_S, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(alarm, signal.SIG_DFL)


class _Logs(dict[str, float]):
    """What an epoch tells; a metric that nobody knew of, too."""

    def __missing__(self, name: str) -> float:
        return 1.0

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]


def _beyond(callback: Any) -> bool:
    """Whether its hooks may write or send by what is open already."""
    met = [
        find_reachable(callback),
        *map(find_reachable_from_function, user_hooks(callback, _HOOKS)),
    ]
    used = frozenset[str]().union(*(found.library_names for found in met))
    held = [value for found in met for _, value in found.named_values]
    named = {name for found in met for name in found.names}
    writes = any(part in name.lower() for name in named for part in _WRITING)
    return writes or bool(used - _COMPUTING) or _holds_open([vars(callback), *held])


def _holds_open(values: Sequence[Any], depth: int = _DEPTH) -> bool:
    for value in values:
        if isinstance(value, io.IOBase | socket.socket | np.memmap):
            return True
        if depth and isinstance(value, dict):
            inner = list(value.values())
        elif depth and isinstance(value, list | tuple | set):
            inner = list(value)
        elif depth and is_user_class(type(value)):
            inner = list(getattr(value, "__dict__", {}).values())
        else:
            continue
        if _holds_open(inner, depth - 1):
            return True
    return False
