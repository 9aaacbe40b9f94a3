"""The functions and the file format with which Keras saves models.

Borrowed: ``saving_lib`` with its savers and ``H5IOStore``; ``file_utils.is_remote_path``;
    ``KerasSaveable.__reduce__``; ``ModelCheckpoint._save_model``; a field of ``TensorBoard``.
Why: the public API writes a file, at once; it offers no copy of what would be written, and does not
    say when a callback saves or traces.
Works with: Keras 3.7.0 and 3.15.1; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported or by the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from uncork.compat.borrow import borrow, borrow_attribute
from uncork.compat.hook_targets import KERAS_SAVING

Saver = Callable[..., Any]

_LIBRARY: Final[Any] = borrow(KERAS_SAVING)
_SAVERS: Final = {False: "save_model", True: "save_weights_only"}
borrow(KERAS_SAVING, _SAVERS[False])
borrow(KERAS_SAVING, _SAVERS[True])
_STORE: Final = "H5IOStore"

# The HDF5 file, or the part of an archive, to which variables are written.
H5Store: Final[Any] = borrow(KERAS_SAVING, _STORE)
# Whether a path is on a file system that Python's own functions do not reach.
is_remote_path: Final[Callable[[str], bool]] = borrow(
    "keras.src.utils.file_utils", "is_remote_path"
)
# The method in which a ``ModelCheckpoint`` saves, if this is the time to.
SAVE: Final = "_save_model"
borrow("keras.src.callbacks.model_checkpoint", f"ModelCheckpoint.{SAVE}")

_Saveable: Final[Any] = borrow("keras.src.saving.keras_saveable", "KerasSaveable")


def saver(*, weights_only: bool) -> Saver:
    """Keras's function that saves a model, or only its weights, to a file; also while it is held.

    Example:
        >>> saver(weights_only=True).__name__
        'save_weights_only'
    """
    function: Saver = getattr(_LIBRARY, _SAVERS[weights_only])
    return getattr(function, "__wrapped__", function)


@contextmanager
def wrapped_savers(wrap: Callable[[Saver, bool], Saver]) -> Iterator[None]:
    """Whatever saves inside the block calls other functions.

    Args:
        wrap: Of Keras's function, and whether it saves only weights: what is to be called.
    """
    before = {name: getattr(_LIBRARY, name) for name in _SAVERS.values()}
    for weights_only, name in _SAVERS.items():
        setattr(_LIBRARY, name, wrap(before[name], weights_only))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(_LIBRARY, name, function)


@contextmanager
def other_store(store: Any) -> Iterator[None]:
    """Keras's savers inside the block write to another kind of store than :data:`H5Store`."""
    setattr(_LIBRARY, _STORE, store)
    try:
        yield
    finally:
        setattr(_LIBRARY, _STORE, H5Store)


@contextmanager
def noting_pickled(note: Callable[[Any], object]) -> Iterator[None]:
    """Report each model, layer or optimizer of Keras that is pickled inside the block."""
    reduce = _Saveable.__reduce__

    def noting(part: Any) -> Any:
        note(part)
        return reduce(part)

    _Saveable.__reduce__ = noting
    try:
        yield
    finally:
        _Saveable.__reduce__ = reduce


def traces_batches(tensorboard: Any) -> bool:
    """Whether a ``TensorBoard`` callback traces some batches with TensorFlow's profiler."""
    return bool(borrow_attribute(tensorboard, "_should_trace"))
