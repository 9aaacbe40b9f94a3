"""What callbacks take, after a batch or after an epoch: the user's own are called a few times.

They are called with everything held back that would reach beyond the process: what a callback
writes, sends or starts raises an error, and it is left out then. What they keep in memory changes,
in a process whose training ends here. Of Keras's own, only checkpoints in the middle of an epoch
are timed, by saving to a directory of ours.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import keras
from keras.src.saving import saving_lib

from uncork.core.facts import CallbackCost
from uncork.core.record import replace
from uncork.core.stack import code_place
from uncork.measure.tracing import tracing_s
from uncork.step.callbacks import acting_on_batches, each_of
from uncork.watch import functions, is_users_class, only_call, outside

# Saves after the first, which finds code and memory cold; none after one that took long.
_SAVES: Final = 3
_LONG_S: Final = 0.5
# Calls of one hook; of a slow one as few as that takes.
_CALLS: Final = 20
_LOOK_S: Final = 0.5
_FEWEST: Final = 3
_HOOKS: Final = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
_EPOCH_HOOKS: Final = ("on_epoch_begin", "on_epoch_end")
# Epochs that are begun and ended, so that one that acts in every tenth acts; and seconds for that.
_EPOCHS: Final = 11
_EPOCHS_S: Final = 3.0


def callback_costs(
    callbacks: Any, model: Any, arguments: Mapping[str, Any]
) -> tuple[CallbackCost, ...]:
    """Time those that can be tried.

    Args:
        callbacks: As given to ``fit``.
        model: Built; what they change of its variables is the caller's to give back.
        arguments: Of the ``fit``.
    """
    by_batches = acting_on_batches(callbacks)
    found = []
    for callback in each_of(callbacks):
        acts = any(callback is each for each in by_batches)
        with suppress(Exception):  # it reaches beyond the process, or wants more than there is
            if acts and _saves_by_batches(callback):
                found.append(_checkpoint(callback, model))
            elif is_users_class(type(callback)) or _holds_hooks(callback):
                found += _own(callback, model, arguments, acts=acts)
    return tuple(found)


def _saves_by_batches(callback: Any) -> bool:
    """And not once an epoch, with hooks of the user's in a class of his own."""
    saving = keras.callbacks.ModelCheckpoint | keras.callbacks.BackupAndRestore
    return isinstance(callback, saving) and callback.save_freq != "epoch"


def _holds_hooks(callback: Any) -> bool:
    """One of Keras's own class, whose hooks are functions that the user gave it."""
    return isinstance(callback, keras.callbacks.LambdaCallback)


def _checkpoint(callback: Any, model: Any) -> CallbackCost:
    weights_only = getattr(callback, "save_weights_only", True)  # as a backup does
    save = saving_lib.save_weights_only if weights_only else saving_lib.save_model
    save = getattr(save, "__wrapped__", save)  # while saves are held back
    name = "c.weights.h5" if weights_only else "c.keras"
    taken: list[float] = []
    with tempfile.TemporaryDirectory(prefix="uncork-") as folder:
        while len(taken) <= _SAVES and sum(taken) < _LONG_S:
            begin = time.perf_counter()
            save(model, Path(folder, name))
            taken.append(time.perf_counter() - begin)
    once_s = statistics.median(taken[1:] or taken)
    return CallbackCost(
        name=type(callback).__name__,
        seconds=once_s / callback.save_freq,
        once_s=once_s,
        at=only_call(type(callback).__name__),
    )


def _own(
    callback: Any, model: Any, arguments: Mapping[str, Any], *, acts: bool
) -> list[CallbackCost]:
    """Of its hooks for batches, and of those for epochs; none where it has neither."""
    cost = CallbackCost(name=type(callback).__name__)
    by_epochs = any(_lines(callback, _EPOCH_HOOKS))
    if not (acts or by_epochs):
        return []
    stops = getattr(model, "stop_training", False)
    callback.set_params({"verbose": 0, "epochs": arguments.get("epochs") or 1, "steps": _CALLS})
    callback.set_model(model)
    try:
        with outside(forbid=True):
            callback.on_train_begin()
            if acts:
                callback.on_epoch_begin(0)
                cost = replace(cost, **_of_batches(callback))
            if by_epochs:
                with suppress(Exception):  # what it takes after a batch is known
                    cost = replace(cost, **_of_epochs(callback, model))
    finally:
        model.stop_training = stops
    return [cost] if acts or cost.epoch_s else []


def _of_batches(callback: Any) -> dict[str, Any]:
    _batch(callback, 0)  # what it sets up at its first batch
    begin, traced_s, calls = time.perf_counter(), tracing_s(), 0
    while calls < _FEWEST or (calls < _CALLS and time.perf_counter() - begin < _LOOK_S):
        calls += 1
        _batch(callback, calls)
    seconds = time.perf_counter() - begin
    return {
        "seconds": seconds / calls,
        "traced_s": (tracing_s() - traced_s) / calls,
        "at": next(_lines(callback, _HOOKS), None),
    }


def _of_epochs(callback: Any, model: Any) -> dict[str, Any]:
    """Without the first one, in which functions are traced and data are read, where others do."""
    taken: list[float] = []
    names = ["loss", *getattr(model, "metrics_names", ())]
    while len(taken) < _EPOCHS and sum(taken) < _EPOCHS_S:
        number = len(taken)
        logs = _Logs((key, 1.0) for name in names for key in (name, f"val_{name}"))
        begin, traced_s = time.perf_counter(), tracing_s()
        callback.on_epoch_begin(number, {})
        callback.on_epoch_end(number, logs)
        taken.append(time.perf_counter() - begin - (tracing_s() - traced_s))
    later = taken[1:] or taken
    at = next(_lines(callback, _EPOCH_HOOKS), None)
    return {"epoch_s": max(0.0, statistics.fmean(later)), "epoch_at": at}


class _Logs(dict[str, float]):
    """What an epoch tells; a metric that nobody knew of, too."""

    def __missing__(self, name: str) -> float:
        return 1.0


def _batch(callback: Any, number: int) -> None:
    callback.on_train_batch_begin(number, None)
    callback.on_train_batch_end(number, {"loss": 1.0})


def _lines(callback: Any, hooks: Iterable[str]) -> Iterator[str]:
    """Where the user's hooks begin; the one at an end does most."""
    owners = [*filter(is_users_class, type(callback).__mro__)]
    owners += [callback] if _holds_hooks(callback) else []
    for hook in reversed([*hooks]):
        for owner in owners:
            for function in functions(vars(owner).get(hook)):
                yield code_place(function.__code__)
