"""What callbacks that act on every batch take: the user's own are called a few times.

They are called with everything held back that would reach beyond the process: what a callback
writes, sends or starts raises an error, and it is left out then. What they keep in memory changes,
in a process whose training ends here. Of Keras's own, only checkpoints in the middle of an epoch
are timed, by saving to a directory of ours.

Which of the user's callbacks must see every batch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import keras

from uncork.compat.keras3.saving import saver, traces_batches
from uncork.compat.tf.functions import total_tracing_s
from uncork.core.base.owned_folder import owned_folder
from uncork.core.evidence.callbacks import CallbackCost
from uncork.pycode.frames.stack import code_location
from uncork.pycode.frames.value_origin import find_only_call
from uncork.pycode.purity.code_objects import functions_of_entry, is_user_class
from uncork.pycode.purity.side_effects import note_side_effects

_BATCH_HOOKS = (
    "on_batch_begin",
    "on_batch_end",
    "on_train_batch_begin",
    "on_train_batch_end",
)
_OF_VALIDATION = ("on_test_batch_begin", "on_test_batch_end")


def batch_callback_names(callbacks: Any) -> tuple[str, ...]:
    """Names of the callbacks that act on every batch, be it of the validation.

    Keras's own that are set to act once an epoch do not count, though they define the hooks.

    Example:
        >>> batch_callback_names(
        ...     [keras.callbacks.EarlyStopping(), keras.callbacks.TerminateOnNaN()]
        ... )
        ('TerminateOnNaN',)
    """
    hooks = (*_BATCH_HOOKS, *_OF_VALIDATION)
    return tuple(type(c).__name__ for c in list_callbacks(callbacks) if _acts_on_batches(c, hooks))


def batch_callbacks(callbacks: Any) -> list[Any]:
    """Those that act on every batch of the training, themselves."""
    return [c for c in list_callbacks(callbacks) if _acts_on_batches(c, _BATCH_HOOKS)]


def list_callbacks(callbacks: Any) -> Iterable[Any]:
    """Callbacks as ``fit`` takes them: one, several, or none."""
    if callbacks is None:
        return ()
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return list(callbacks.callbacks)
    return callbacks if isinstance(callbacks, list | tuple) else (callbacks,)


def _acts_on_batches(callback: Any, hooks: Iterable[str]) -> bool:
    hooks = tuple(hooks)
    if any(_is_of_the_user(callback, hook) for hook in hooks):
        return True
    if isinstance(callback, keras.callbacks.History | keras.callbacks.ProgbarLogger):
        return False
    if isinstance(callback, keras.callbacks.ModelCheckpoint | keras.callbacks.BackupAndRestore):
        return bool(callback.save_freq != "epoch")
    if isinstance(callback, keras.callbacks.TensorBoard):
        return bool(callback.update_freq != "epoch" or traces_batches(callback))
    return any(_overridden(callback, hook) for hook in hooks)


def _is_of_the_user(callback: Any, hook: str) -> bool:
    """A class between the callback's own and Keras's has a hook of its own."""
    owner = next(kind for kind in type(callback).__mro__ if hook in vars(kind))
    return not owner.__module__.startswith("keras.")


def _overridden(callback: Any, hook: str) -> bool:
    # LambdaCallback keeps what it was given on the instance.
    inherited = getattr(type(callback), hook) is getattr(keras.callbacks.Callback, hook)
    return hook in vars(callback) or not inherited


# Saves after the first, which finds code and memory cold; none after one that took long.
_SAVES: Final = 3
_LONG_S: Final = 0.5
# Calls of one hook; of a slow one as few as that takes.
_CALLS: Final = 20
_LOOK_S: Final = 0.5
_FEWEST: Final = 3
_HOOKS: Final = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


def measure_callback_costs(
    callbacks: Any, model: Any, arguments: Mapping[str, Any]
) -> tuple[CallbackCost, ...]:
    """Time those that can be tried.

    Args:
        callbacks: As given to ``fit``.
        model: Built; what they change of its variables is the caller's to give back.
        arguments: Of the ``fit``.
    """
    found = []
    for callback in batch_callbacks(callbacks):
        with suppress(Exception):  # it reaches beyond the process, or wants more than there is
            if _saves_by_batches(callback):
                found.append(_checkpoint(callback, model))
            elif is_user_class(type(callback)) or is_lambda_callback(callback):
                found.append(_own(callback, model, arguments))
    return tuple(found)


def _saves_by_batches(callback: Any) -> bool:
    """And not once an epoch, with hooks of the user's in a class of his own."""
    saving = keras.callbacks.ModelCheckpoint | keras.callbacks.BackupAndRestore
    return isinstance(callback, saving) and callback.save_freq != "epoch"


def is_lambda_callback(callback: Any) -> bool:
    """One of Keras's own class, whose hooks are functions that the user gave it."""
    return isinstance(callback, keras.callbacks.LambdaCallback)


def _checkpoint(callback: Any, model: Any) -> CallbackCost:
    weights_only = getattr(callback, "save_weights_only", True)  # as a backup does
    save = saver(weights_only=weights_only)
    name = "c.weights.h5" if weights_only else "c.keras"
    taken: list[float] = []
    with owned_folder() as folder:
        while len(taken) <= _SAVES and sum(taken) < _LONG_S:
            begin = time.perf_counter()
            save(model, Path(folder, name))
            taken.append(time.perf_counter() - begin)
    once_s = statistics.median(taken[1:] or taken)
    return CallbackCost(
        name=type(callback).__name__,
        batch_s=once_s / callback.save_freq,
        action_s=once_s,
        at=find_only_call(type(callback).__name__),
    )


def _own(callback: Any, model: Any, arguments: Mapping[str, Any]) -> CallbackCost:
    callback.set_params({"verbose": 0, "epochs": arguments.get("epochs") or 1, "steps": _CALLS})
    callback.set_model(model)
    with note_side_effects(forbid=True):
        callback.on_train_begin()
        callback.on_epoch_begin(0)
        _batch(callback, 0)  # what it sets up at its first batch
        begin, traced_s, calls = time.perf_counter(), total_tracing_s(), 0
        while calls < _FEWEST or (calls < _CALLS and time.perf_counter() - begin < _LOOK_S):
            calls += 1
            _batch(callback, calls)
        seconds = time.perf_counter() - begin
    return CallbackCost(
        name=type(callback).__name__,
        batch_s=seconds / calls,
        tracing_s=(total_tracing_s() - traced_s) / calls,
        at=next(hook_locations(callback, _HOOKS), None),
    )


def _batch(callback: Any, number: int) -> None:
    callback.on_train_batch_begin(number, None)
    callback.on_train_batch_end(number, {"loss": 1.0})


def hook_locations(callback: Any, hooks: Sequence[str]) -> Iterator[str]:
    """Where hooks of the user's begin; the last one of these names first, which does most."""
    for function in user_hooks(callback, hooks):
        yield code_location(function.__code__)


def user_hooks(callback: Any, hooks: Sequence[str]) -> Iterator[Any]:
    """Functions of the user's among a callback's hooks, the last name's first."""
    owners = [*filter(is_user_class, type(callback).__mro__)]
    owners += [callback] if is_lambda_callback(callback) else []
    for hook in reversed(hooks):
        for owner in owners:
            yield from functions_of_entry(vars(owner).get(hook))
