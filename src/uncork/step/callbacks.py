"""Which of the user's callbacks must see every batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras

_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")
_OF_VALIDATION = ("on_test_batch_begin", "on_test_batch_end")


def batch_hooks(callbacks: Any) -> tuple[str, ...]:
    """Names of the callbacks that act on every batch, be it of the validation.

    Keras's own that are set to act once an epoch do not count, though they define the hooks.

    Example:
        >>> batch_hooks([keras.callbacks.EarlyStopping(), keras.callbacks.TerminateOnNaN()])
        ('TerminateOnNaN',)
    """
    hooks = (*_HOOKS, *_OF_VALIDATION)
    return tuple(type(c).__name__ for c in each_of(callbacks) if _acts_on_batches(c, hooks))


def acting_on_batches(callbacks: Any) -> list[Any]:
    """Those that act on every batch of the training, themselves."""
    return [c for c in each_of(callbacks) if _acts_on_batches(c, _HOOKS)]


def each_of(callbacks: Any) -> Iterable[Any]:
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
        return bool(callback.update_freq != "epoch" or callback._should_trace)
    return any(_overridden(callback, hook) for hook in hooks)


def _is_of_the_user(callback: Any, hook: str) -> bool:
    """A class between the callback's own and Keras's has a hook of its own."""
    owner = next(kind for kind in type(callback).__mro__ if hook in vars(kind))
    return not owner.__module__.startswith("keras.")


def _overridden(callback: Any, hook: str) -> bool:
    # LambdaCallback keeps what it was given on the instance.
    inherited = getattr(type(callback), hook) is getattr(keras.callbacks.Callback, hook)
    return hook in vars(callback) or not inherited
