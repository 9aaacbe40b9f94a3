"""Python loaders as stages: what one batch costs, and where the user wrote it."""

from __future__ import annotations

import inspect
import itertools
import os
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from uncork.core.stage import Copied, Stage
from uncork.step.feed import Feed
from uncork.step.narrowed_loader import loading_method, narrowed_loader
from uncork.step.statements import Statement, statements

# Batches made to time a loader; the first one is not counted, it opens files and warms caches.
_BATCHES: Final = 6
# Calls of a loader as it is and in single precision, in turn.
_PAIRS: Final = 3
# Slower loaders are not run again under a watch: Python is slower still then.
_LONGEST_S: Final = 2.0
# Of a loader's time, what one statement must take to be the one to look at.
_MOST: Final = 0.5
# A statement that fills so many times the memory of a batch does so for more than that batch.
_MANY: Final = 8


def loader_stages(feed: Feed) -> tuple[Stage, ...]:
    """The stage behind a feed that is no tf.data pipeline; empty for plain arrays.

    Args:
        feed: Of the training; a ``PyDataset`` is asked for some of its batches.
    """
    if feed.kind != "pydataset":
        return ()
    cost = _cost(feed.x)
    workers = int(getattr(feed.x, "workers", 1) or 1)
    watched = _watched(feed.x) if cost.wall_s <= _LONGEST_S else ()
    most = max(watched, key=lambda s: s.share, default=None)
    return (
        Stage(
            index=0,
            kind="pydataset",
            at=_place(feed.x, most.line if most is not None and most.share >= _MOST else None),
            name=type(feed.x).__name__,
            cpu_s_per_element=cost.cpu_s,
            wall_s_per_element=cost.wall_s,
            float32_cpu_s_per_element=_in_single(feed.x, cost),
            bytes_per_element=cost.bytes or None,
            elements_per_step=1.0,
            parallelism=workers if workers > 1 else 1,
            random=True,
            python=True,
            copied=_copied(feed.x, watched, cost.bytes),
        ),
    )


@dataclass(frozen=True)
class _Cost:
    """Of one batch, made and copied into tensors: CPU and elapsed seconds; bytes of its arrays."""

    cpu_s: float
    wall_s: float
    bytes: int


def _cost(dataset: Any) -> _Cost:
    length = dataset.num_batches
    indices = itertools.islice(itertools.cycle(range(length or _BATCHES + 1)), _BATCHES + 1)
    batch = dataset[next(indices)]
    cpu, begin = time.process_time(), time.perf_counter()
    for index in indices:
        _hand_over(dataset[index])
    cpu_s, wall_s = time.process_time() - cpu, time.perf_counter() - begin
    nbytes = sum(int(getattr(leaf, "nbytes", 0)) for leaf in keras.tree.flatten(batch))
    return _Cost(cpu_s / _BATCHES, wall_s / _BATCHES, nbytes)


def _watched(dataset: Any) -> tuple[Statement, ...]:
    method = loading_method(dataset)
    return () if method is None else statements(method, lambda: dataset[0])


def _copied(dataset: Any, watched: tuple[Statement, ...], used_bytes: int) -> Copied | None:
    """The costliest statement that fills much more memory than the batch has."""
    wasteful = [s for s in watched if used_bytes and s.made_bytes >= _MANY * used_bytes]
    most = max(wasteful, key=lambda s: s.share, default=None)
    if most is None:
        return None
    at = _place(dataset, most.line)
    return Copied(at=at, share=most.share, made_bytes=most.made_bytes, used_bytes=used_bytes)


def _in_single(dataset: Any, cost: _Cost) -> float | None:
    """CPU seconds of a batch, had its numbers four bytes; that the step narrows them counts too."""
    single = narrowed_loader(dataset)
    if single is None or cost.wall_s > _LONGEST_S:
        return None
    with suppress(Exception):  # a loader that insists on what it was given
        clocks = [(_handed_over_s(dataset.__getitem__), _handed_over_s(single))]
        clocks += [
            (_handed_over_s(dataset.__getitem__), _handed_over_s(single)) for _ in range(_PAIRS)
        ]
        ratio = statistics.median(narrow / wide for wide, narrow in clocks[1:])
        return cost.cpu_s * min(1.0, ratio)
    return None


def _handed_over_s(load: Callable[[int], Any]) -> float:
    """CPU seconds of a batch, made, copied into tensors and narrowed."""
    begin = time.process_time()
    for tensor in _hand_over(load(0)):
        if tensor.dtype.is_floating:
            tf.cast(tensor, tf.float32)
    return time.process_time() - begin


def _hand_over(batch: Any) -> list[Any]:
    """What Keras does with each batch, on the loader's thread."""
    leaves = keras.tree.flatten(batch)
    return [tf.constant(leaf) for leaf in leaves if isinstance(leaf, np.ndarray)]


def _place(dataset: Any, line: int | None) -> str | None:
    """``file.py:line`` of a line of the method that makes a batch; of its first one if None."""
    method = loading_method(dataset)
    try:
        path = inspect.getsourcefile(method) if method else None
        line = line or inspect.getsourcelines(method)[1]  # type: ignore[arg-type]
    except (OSError, TypeError):
        return None
    if path is None:
        return None
    shown = os.path.relpath(path)
    return f"{path if shown.startswith('..') else Path(shown)}:{line}"
