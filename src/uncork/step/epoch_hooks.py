"""What a user's own callbacks take before and after an epoch: called for some epochs, last of all.

They may change what no snapshot holds: which layers learn, how the model is compiled, other models
of the script's. So nothing is measured behind them. What would write or send raises an error, as
for hooks of batches; what holds an open file or a connection already, or calls a library that
nobody knows to hold none, is not called at all.
"""

from __future__ import annotations

import io
import socket
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from uncork.core.facts import CallbackCost
from uncork.measure.tracing import tracing_s
from uncork.step.callback_costs import holds_hooks, lines_of, own_hooks
from uncork.step.callbacks import each_of
from uncork.watch import is_users_class, outside, reached, reached_by

_HOOKS: Final = ("on_epoch_begin", "on_epoch_end")
# Epochs that are begun and ended, so that one that acts in every tenth acts; and seconds for that.
_EPOCHS: Final = 11
_SECONDS: Final = 3.0
# Packages whose functions compute, and keep no file and no connection open. Of streams it is asked
# which there are: a model, too, is made of them when it is looked into.
_COMPUTING: Final = frozenset({
    "PIL", "_io", "abc", "builtins", "collections", "contextlib", "copy", "dataclasses", "datetime",
    "enum", "functools", "gc", "itertools", "json", "keras", "logging", "math", "numpy", "operator",
    "os", "pandas", "pathlib", "random", "re", "scipy", "sklearn", "statistics", "string", "sys",
    "tensorflow", "textwrap", "time", "types", "typing", "warnings",
})  # fmt: skip
_DEPTH: Final = 3


def epoch_costs(
    callbacks: Any, model: Any, arguments: Mapping[str, Any]
) -> tuple[CallbackCost, ...]:
    """Time those that can be tried, in a process that ends with that.

    Args:
        callbacks: As given to ``fit``.
        model: Built; what they change of its variables is the caller's to give back.
        arguments: Of the ``fit``.
    """
    found = []
    for callback in each_of(callbacks):
        own = is_users_class(type(callback)) or holds_hooks(callback)
        if own and any(own_hooks(callback, _HOOKS)) and not _beyond(callback):
            taken = _taken(callback, model, arguments)
            # Without the first one, in which functions are traced and data are read.
            seconds = statistics.fmean(taken[1:] or taken) if taken else 0.0
            if seconds > 0:
                found.append(
                    CallbackCost(
                        name=type(callback).__name__,
                        epoch_s=seconds,
                        epoch_at=next(lines_of(callback, _HOOKS), None),
                    )
                )
    return tuple(found)


def _taken(callback: Any, model: Any, arguments: Mapping[str, Any]) -> list[float]:
    """Seconds of each epoch that there was time for, and that the training has."""
    first = int(arguments.get("initial_epoch") or 0)
    epochs = int(arguments.get("epochs") or 1)
    names = ["loss", *getattr(model, "metrics_names", ())]
    stops, taken = getattr(model, "stop_training", False), list[float]()
    began = time.perf_counter()
    # Whoever leaves by sys.exit leaves the training, and not this look at it.
    with suppress(Exception, SystemExit), outside(forbid=True):
        callback.set_params({"verbose": 0, "epochs": epochs, "steps": None})
        callback.set_model(model)
        callback.on_train_begin()
        for number in range(first, min(epochs, first + _EPOCHS)):
            logs = _Logs((key, 1.0) for name in names for key in (name, f"val_{name}"))
            begin, traced_s = time.perf_counter(), tracing_s()
            callback.on_epoch_begin(number, {})
            callback.on_epoch_end(number, logs)
            taken.append(time.perf_counter() - begin - (tracing_s() - traced_s))
            if time.perf_counter() - began > _SECONDS:
                break
    model.stop_training = stops
    return taken


class _Logs(dict[str, float]):
    """What an epoch tells; a metric that nobody knew of, too."""

    def __missing__(self, name: str) -> float:
        return 1.0

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]


def _beyond(callback: Any) -> bool:
    """Whether its hooks may write or send by what is open already."""
    met = [reached(callback), *map(reached_by, own_hooks(callback, _HOOKS))]
    used = frozenset[str]().union(*(found.libraries for found in met))
    held = [value for found in met for _, value in found.values]
    return bool(used - _COMPUTING) or _holds_open([vars(callback), *held])


def _holds_open(values: Sequence[Any], depth: int = _DEPTH) -> bool:
    for value in values:
        if isinstance(value, io.IOBase | socket.socket):
            return True
        if depth and isinstance(value, dict):
            inner = list(value.values())
        elif depth and isinstance(value, list | tuple | set):
            inner = list(value)
        elif depth and is_users_class(type(value)):
            inner = list(getattr(value, "__dict__", {}).values())
        else:
            continue
        if _holds_open(inner, depth - 1):
            return True
    return False
