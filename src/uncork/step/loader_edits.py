"""What edits do to a ``PyDataset``: threads that make its batches, batches that are kept."""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import keras

from uncork.core.edit import LoaderCache, LoaderEdit, LoaderWorkers
from uncork.core.errors import EditRefused
from uncork.step.loader_state import loader_digest, state_digest

# Batches that are asked for ahead, for each thread: fewer would leave some of them idle.
_AHEAD: Final = 2
_SETTINGS: Final = ("workers", "max_queue_size")
_HOOKS: Final = ("on_epoch_begin", "on_epoch_end")


def edited_loader(dataset: Any, edits: tuple[LoaderEdit, ...]) -> Any:
    """A copy of a loader that reads the same data in another way; for a trial.

    Raises:
        EditRefused: It is another loader than an edit was made for, or has what the edit would
            give it.
    """
    other = copy.copy(dataset)
    for edit in edits:
        check_loader(other, edit)
        _apply(other, edit)
    return other


@contextmanager
def loader_edited(dataset: Any, edits: tuple[LoaderEdit, ...]) -> Iterator[None]:
    """Put edits in force on the user's own loader for as long as the block lasts."""
    class_ = type(dataset)
    before = [(name, getattr(dataset, name)) for name in _SETTINGS] if edits else []
    try:
        for edit in edits:
            _apply(dataset, edit)
        yield
    finally:
        if edits:
            dataset.__class__ = class_
        for name, value in before:
            setattr(dataset, name, value)


def check_loader(dataset: Any, edit: LoaderEdit) -> None:
    """Refuse an edit that was made for another loader.

    Raises:
        EditRefused: With what was found and what was expected.
    """
    name = type(dataset).__name__
    if workers_of(dataset) > 1 or getattr(dataset, "use_multiprocessing", False):
        raise EditRefused(f"{name} has workers of its own", "one without", "keep them")
    found = loader_digest(dataset)
    if found != edit.expects:
        raise EditRefused(
            f"the code or the settings of {name} have digest {found}",
            f"{edit.expects}, for which a loader was seen to depend on its index alone",
            "run 'uncork tune' again",
        )
    if isinstance(edit, LoaderCache) and not repeats_epochs(dataset):
        raise EditRefused(
            f"{name} changes between epochs, or has no end",
            "batches that are the same in every epoch",
            "run 'uncork tune' again",
        )


def workers_of(dataset: Any) -> int:
    """Threads or processes that make the batches; 1 where the training's own reader does."""
    return int(getattr(dataset, "workers", 1) or 1)


def repeats_epochs(dataset: Any) -> bool:
    """As many batches in every epoch, and nothing of the user's that runs between two of them."""
    own = any(getattr(type(dataset), h) is not getattr(keras.utils.PyDataset, h) for h in _HOOKS)
    return dataset.num_batches is not None and not own


def stop_workers(epochs: Any) -> None:
    """End the threads of an epoch iterator that was left before its end.

    Keras ends them at the end of an epoch only; one that waits for room in its queue would wait for
    ever, and hold the data.
    """
    enqueuer = getattr(getattr(epochs, "data_adapter", None), "enqueuer", None)
    if enqueuer is not None:
        with suppress(Exception):  # of the loader, in a batch that nobody will see
            enqueuer.stop()


def fill_loader(dataset: Any, limit_s: float) -> None:
    """Make all batches of a loader that keeps them, or what can be made in so many seconds."""
    deadline = time.monotonic() + limit_s
    dataset.on_epoch_begin()
    for index in range(dataset.num_batches):
        dataset[index]
        if time.monotonic() > deadline:
            return


def _apply(dataset: Any, edit: LoaderEdit) -> None:
    if isinstance(edit, LoaderWorkers):
        dataset.workers = edit.workers
        dataset.max_queue_size = max(dataset.max_queue_size, _AHEAD * edit.workers)
    else:
        dataset.__class__ = _keeping(type(dataset))


def _keeping(class_: Any) -> type:
    """The same class, its batches made once.

    Before each epoch all that the loader can reach is digested: where a callback, or anybody, has
    changed something, the batches are made anew.
    """
    kept: dict[int, Any] = {}
    known: list[str] = [""]

    @functools.wraps(class_.__getitem__)
    def __getitem__(self: Any, index: int) -> Any:  # noqa: N807 - of the class made here
        if index not in kept:
            kept[index] = class_.__getitem__(self, index)
        return kept[index]

    def on_epoch_begin(self: Any) -> None:
        now = ""
        with suppress(Exception):  # it has come to hold what cannot be digested
            now = state_digest(self)
        if not now or now != known[0]:
            kept.clear()
        known[0] = now

    made = {"__getitem__": __getitem__, "on_epoch_begin": on_epoch_begin}
    return type(class_.__name__, (class_,), made)
