"""Edits of a ``PyDataset``: threads or processes load its batches, or a cache keeps them."""

from __future__ import annotations

import copy
import copyreg
import functools
import inspect
import queue
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import keras

from uncork.core.base.errors import EditRefused
from uncork.core.edits.edit import (
    PREFETCHED_BATCHES_PER_WORKER,
    LoaderCache,
    LoaderEdit,
    LoaderProcesses,
    LoaderWorkers,
    PyDatasetEdit,
)
from uncork.pycode.purity.memoized_function import copy_leaf, values_bytes
from uncork.pycode.purity.random_draws import RandomStates, with_methods
from uncork.pycode.purity.reachability import (
    find_reachable,
    loader_digest,
    state_digest,
    value_digest,
)
from uncork.pycode.purity.referrers import find_owners
from uncork.training.input.loader_processes import ProcessLoader, end_processes, fork_refusal

_SETTINGS: Final = ("workers", "max_queue_size")
_HOOKS: Final = ("on_epoch_begin", "on_epoch_end")
# What the batches may take more than was seen when the plan was made.
_MORE: Final = 1.25


def select_py_dataset_edits(edits: tuple[LoaderEdit, ...]) -> tuple[PyDatasetEdit, ...]:
    """The edits that are for a ``PyDataset``."""
    return tuple(edit for edit in edits if isinstance(edit, PyDatasetEdit))


def copy_with_edits(dataset: Any, edits: tuple[PyDatasetEdit, ...]) -> Any:
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
def apply_loader_edits(dataset: Any, loader_edits: tuple[LoaderEdit, ...]) -> Iterator[None]:
    """Apply edits to the user's own loader inside the block."""
    edits = select_py_dataset_edits(loader_edits)
    if not edits:
        yield
        return
    class_, before = type(dataset), [(name, getattr(dataset, name)) for name in _SETTINGS]
    undo: list[Callable[[], None]] = []
    try:
        undo.extend(_apply(dataset, edit) for edit in edits)
        yield
    finally:
        for enqueuer in _enqueuers(dataset):  # of a training that was stopped in mid-epoch
            _stop(enqueuer)
        dataset.__class__ = class_
        for name, value in before:
            setattr(dataset, name, value)
        for each in undo:
            each()


def check_loader(dataset: Any, edit: PyDatasetEdit) -> None:
    """Refuse an edit that was made for another loader.

    Raises:
        EditRefused: With what was found and what was expected.
    """
    name = type(dataset).__name__
    if worker_count(dataset) > 1 or getattr(dataset, "use_multiprocessing", False):
        raise EditRefused(
            f"{name} already sets workers or use_multiprocessing",
            "a loader without workers",
            "keep the workers of the loader",
        )
    found = loader_digest(dataset)
    if found != edit.expected_digest:
        raise EditRefused(
            f"the code and settings of {name} have digest {found}",
            f"digest {edit.expected_digest}, of a loader whose batches depend on the index alone",
            "run 'uncork tune' again",
        )
    if not isinstance(edit, LoaderCache) and has_epoch_begin_hook(dataset):
        raise EditRefused(
            f"{name} overrides on_epoch_begin, and Keras lets workers start before that call",
            "a loader without on_epoch_begin, or with the same code in on_epoch_end",
            "run the plan without this optimization",
        )
    if isinstance(edit, LoaderProcesses) and (why := fork_refusal(dataset)):
        raise EditRefused(
            why, "a loader that works in forked processes", "run the plan without this optimization"
        )
    if isinstance(edit, LoaderCache) and not has_identical_epochs(dataset):
        raise EditRefused(
            f"{name} changes between epochs, or is endless",
            "batches that are the same in every epoch",
            "run 'uncork tune' again",
        )
    _apply(copy.copy(dataset), edit)  # what cannot be done is refused before anything is changed


def worker_count(dataset: Any) -> int:
    """Number of threads or processes that load batches; 1 without workers."""
    return int(getattr(dataset, "workers", 1) or 1)


def has_identical_epochs(dataset: Any) -> bool:
    """Every epoch has the same number of batches, and no code of the user's runs between epochs."""
    return dataset.num_batches is not None and not has_epoch_hooks(dataset)


def has_epoch_hooks(dataset: Any) -> bool:
    """Code of the user's runs between two epochs."""
    own = (inspect.unwrap(getattr(type(dataset), hook)) for hook in _HOOKS)  # not of an edit
    return any(o is not getattr(keras.utils.PyDataset, h) for o, h in zip(own, _HOOKS, strict=True))


def has_epoch_begin_hook(dataset: Any) -> bool:
    """Code of the user's runs when an epoch starts; without workers, before its batches."""
    return type(dataset).on_epoch_begin is not keras.utils.PyDataset.on_epoch_begin


def stop_workers(epochs: Any) -> None:
    """Stop the threads of an epoch iterator that was exited before its end.

    Keras ends them at the end of an epoch only; one that waits for room in its queue would wait for
    ever, and hold the data.
    """
    adapter = getattr(epochs, "data_adapter", None)
    enqueuer = getattr(adapter, "enqueuer", None)
    if enqueuer is not None:
        _stop(enqueuer)
        end_processes(getattr(adapter, "py_dataset", None))


def fill_loader(dataset: Any, limit_s: float) -> None:
    """Make all batches of a loader that keeps them, or what can be made in so many seconds."""
    deadline = time.monotonic() + limit_s
    dataset.on_epoch_begin()
    for index in range(dataset.num_batches):
        dataset[index]
        if time.monotonic() > deadline:
            return


def _stop(enqueuer: Any) -> None:
    with suppress(Exception):  # of the loader, in a batch that nobody will see
        enqueuer.stop()


def _enqueuers(dataset: Any) -> list[Any]:
    """What Keras reads a loader in threads with; it holds the loader in its attributes."""
    owners = find_owners(dataset)
    return [o for o in owners if getattr(o, "py_dataset", None) is dataset and hasattr(o, "stop")]


def _apply(dataset: Any, edit: PyDatasetEdit) -> Callable[[], None]:
    """Apply an edit; returns a function that releases its resources."""
    class_ = type(dataset)
    if isinstance(edit, LoaderWorkers):
        _ask_from_threads(dataset, edit.workers, edit.workers)
        _extend(dataset, {"on_epoch_end": _on_epoch_end(class_), **_as_of(class_)})
        return lambda: None
    if isinstance(edit, LoaderProcesses):
        _ask_from_threads(dataset, PREFETCHED_BATCHES_PER_WORKER * edit.processes, edit.processes)
        elsewhere = ProcessLoader(dataset, edit.processes, is_random=edit.is_random)
        ends = {"on_epoch_end": _on_epoch_end(class_, elsewhere.close)}
        _extend(dataset, {**elsewhere.methods(), **ends, **_as_of(class_)})
        return elsewhere.close
    kept = _Kept(dataset, edit.size_bytes)
    _extend(dataset, kept.methods())
    kept.begin(dataset)
    return kept.clear


def _ask_from_threads(dataset: Any, threads: int, makers: int) -> None:
    """Each thread waits for a batch; of those that make them, none is to be idle meanwhile."""
    dataset.workers = threads
    dataset.max_queue_size = max(dataset.max_queue_size, PREFETCHED_BATCHES_PER_WORKER * makers)


def _extend(dataset: Any, methods: dict[str, Any]) -> None:
    """Override methods of a loader.

    Raises:
        EditRefused: Its class cannot be extended.
    """
    try:
        with_methods(dataset, methods)
    except Exception as error:
        raise EditRefused(
            f"Uncork cannot derive a class from {type(dataset).__name__}: {error}",
            "a loader whose class can be derived from",
            "keep the loader unchanged",
        ) from error


def _as_of(class_: Any) -> dict[str, Any]:
    """Methods with which an object of a class made here is pickled and copied as of the user's."""

    def __reduce_ex__(loader: Any, protocol: Any) -> Any:  # noqa: N807
        del protocol  # as an object of the user's own class, whichever
        return copyreg._reconstructor, (class_, object, None), dict(vars(loader))  # type: ignore[attr-defined]

    def __copy__(loader: Any) -> Any:  # noqa: N807
        other = object.__new__(class_)
        vars(other).update(vars(loader))
        return other

    return {f.__name__: f for f in (__reduce_ex__, __copy__)}


def _on_epoch_end(class_: Any, close: Callable[[], None] = lambda: None) -> Callable[[Any], None]:
    """The user's own, behind which no batch of the epoch before is left.

    Args:
        class_: The user's.
        close: Lets go of what made the batches.


    Keras reads as many as there were at its beginning, or as it is told, and lets workers make as
    many as there are. What they had ready by then it would hand out in the next epoch.
    """

    @functools.wraps(class_.on_epoch_end)
    def on_epoch_end(loader: Any) -> None:
        close()
        class_.on_epoch_end(loader)
        if loader.num_batches is not None:
            # Whoever calls it, and what it reads the loader with; anybody else reads nothing.
            adapter = sys._getframe(1).f_locals.get("self")
            enqueuer = getattr(adapter, "enqueuer", None)
            if enqueuer is not None:
                with suppress(queue.Empty):
                    while True:
                        enqueuer.ready_queue.get(block=False)

    return on_epoch_end


class _Kept:
    """Batches that were made once.

    Before each epoch all that the loader can get at is digested, and what is set on it is seen at
    once: where a callback, or anybody, has changed something, the batches are made anew. They are
    made twice then, and kept if all are equal, as far as they are asked again: it may draw now what
    it did not when that was looked at. What is handed out is a copy.

    Args:
        dataset: Of the user's class.
        most_bytes: That the batches take, as far as was seen.
    """

    def __init__(self, dataset: Any, most_bytes: int) -> None:
        self._class: Any = type(dataset)
        self._generators = find_reachable(dataset).generators
        self._most = self._room = _MORE * most_bytes
        self._batches: dict[int, Any] = {}
        self._state = ""
        self._trusts = True
        self._draws = False
        self._trusted: set[int] = set()

    def begin(self, dataset: Any) -> None:
        """What it finds now is what was looked at; whoever changes it before an epoch is seen."""
        self._state = state_digest(dataset)

    def clear(self) -> None:
        """Let go of all batches."""
        self._trusted.clear()  # first: another thread may be reading
        self._batches.clear()
        self._room = self._most

    def methods(self) -> dict[str, Any]:
        """Of the class that keeps."""
        class_ = self._class

        @functools.wraps(class_.__getitem__)
        def __getitem__(loader: Any, index: Any) -> Any:  # noqa: N807
            return self._batch(loader, index)

        def on_epoch_begin(loader: Any) -> None:
            self._look(loader)

        def __setattr__(loader: Any, name: str, value: Any) -> None:  # noqa: N807
            class_.__setattr__(loader, name, value)
            if self._state:
                self._changed("")

        made = (__getitem__, on_epoch_begin, __setattr__)
        return {f.__name__: f for f in made} | _as_of(class_)

    def _look(self, loader: Any) -> None:
        now = state_digest(loader)
        if not now or now != self._state:
            self._changed(now)

    def _changed(self, now: str) -> None:
        self._trusts = self._draws = False
        self._state = now
        self.clear()

    def _batch(self, loader: Any, index: Any) -> Any:
        if index.__hash__ is None:
            return self._class.__getitem__(loader, index)
        kept = self._batches.get(index) if index in self._trusted else None
        if kept is None:
            state, draws = self._state, RandomStates(self._generators).all_current_states()
            made = self._class.__getitem__(loader, index)
            if (
                RandomStates(self._generators).all_current_states() != draws
                or self._state != state
                or not state
            ):
                return made
            self._keep(index, made)
            return made
        return _copied(kept)

    def _keep(self, index: Any, made: Any) -> None:
        before = self._batches.get(index)
        if self._draws:
            return
        if before is not None and index not in self._trusted:
            if _are_equal(_copied(made), before):
                self._trusted.add(index)
            else:  # then others were equal by chance
                self.clear()
                self._draws = True
            return
        size = values_bytes(made)
        if size <= self._room:
            self._room -= size
            self._batches[index] = _copied(made)
            if self._trusts:
                self._trusted.add(index)


def _are_equal(made: Any, before: Any) -> bool:
    try:
        return value_digest((made,)) == value_digest((before,))
    except Exception:
        return False


def _copied(batch: Any) -> Any:
    return keras.tree.map_structure(copy_leaf, batch)
