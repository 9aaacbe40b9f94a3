"""Threads that make the batches of a ``PyDataset``: Keras's own, switched on and off."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from uncork.core.edit import LoaderWorkers
from uncork.core.errors import EditRefused
from uncork.step.loader_state import loader_digest

# Batches that are asked for ahead, for each thread: fewer would leave some of them idle.
_AHEAD: Final = 2


def in_workers(dataset: Any, edit: LoaderWorkers) -> Any:
    """A copy of a loader that reads the same data in so many threads; for a trial.

    Raises:
        EditRefused: It is another loader than the edit was made for, or has workers already.
    """
    check_loader(dataset, edit)
    other = copy.copy(dataset)
    _set(other, edit)
    return other


@contextmanager
def working(dataset: Any, edits: tuple[LoaderWorkers, ...]) -> Iterator[None]:
    """Let the loader itself have its workers for as long as the block lasts."""
    before = [(name, getattr(dataset, name)) for name in _SETTINGS] if edits else []
    try:
        for edit in edits:
            _set(dataset, edit)
        yield
    finally:
        for name, value in before:
            setattr(dataset, name, value)


def check_loader(dataset: Any, edit: LoaderWorkers) -> None:
    """Refuse an edit that was made for another loader.

    Raises:
        EditRefused: With what was found and what was expected.
    """
    if workers_of(dataset) > 1 or getattr(dataset, "use_multiprocessing", False):
        raise EditRefused(
            f"{type(dataset).__name__} has workers of its own", "one without", "keep them"
        )
    found = loader_digest(dataset)
    if found != edit.expects:
        raise EditRefused(
            f"the code or the settings of {type(dataset).__name__} have digest {found}",
            f"{edit.expects}, for which a loader was seen to depend on its index alone",
            "run 'uncork tune' again",
        )


def workers_of(dataset: Any) -> int:
    """Threads or processes that make the batches; 1 where the training's own reader does."""
    return int(getattr(dataset, "workers", 1) or 1)


def stop_workers(epochs: Any) -> None:
    """End the threads of an epoch iterator that was left before its end.

    Keras ends them at the end of an epoch only; one that waits for room in its queue would wait for
    ever, and hold the data.
    """
    enqueuer = getattr(getattr(epochs, "data_adapter", None), "enqueuer", None)
    if enqueuer is not None:
        with suppress(Exception):  # of the loader, in a batch that nobody will see
            enqueuer.stop()


_SETTINGS: Final = ("workers", "max_queue_size")


def _set(dataset: Any, edit: LoaderWorkers) -> None:
    dataset.workers = edit.workers
    dataset.max_queue_size = max(dataset.max_queue_size, _AHEAD * edit.workers)
