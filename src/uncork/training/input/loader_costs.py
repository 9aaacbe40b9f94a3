"""Python loaders as stages: what one batch costs, and where the user wrote it."""

from __future__ import annotations

import inspect
import itertools
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from uncork.core.edits.edit import MAX_PROCESSES, MAX_WORKERS, PREFETCHED_BATCHES_PER_WORKER
from uncork.core.evidence.stage import ArrayCopy, Memoization, Stage
from uncork.measure.machine.probe import usable_cpus
from uncork.measure.profile.statement_profiler import StatementCost, profile_statements
from uncork.pycode.frames.stack import format_location
from uncork.pycode.frames.value_origin import find_array_origin
from uncork.pycode.purity.index_dependence import Dependence, find_dependence
from uncork.pycode.purity.memoized_function import values_bytes
from uncork.pycode.purity.random_draws import preserve_random_states
from uncork.pycode.purity.reachability import state_digest
from uncork.training.input.feed import Feed
from uncork.training.input.forked_workers import BatchWorkers
from uncork.training.input.generator_stream import SharedGenerator
from uncork.training.input.loader_code import create_float32_loader, reachable_arrays, user_getitem
from uncork.training.input.loader_edits import (
    has_epoch_begin_hook,
    has_identical_epochs,
    worker_count,
)
from uncork.training.input.loader_processes import fork_refusal

# Batches made to time a loader; the first one is not counted, it opens files and warms caches.
_BATCHES: Final = 6
# Calls of a loader as it is and in single precision, in turn; the first ones are not counted.
_PAIRS: Final = 4
# Batches that are made twice, and those that each of several threads makes; fewer of slow loaders.
_LOOKS: Final = (4, 2)
# Slower loaders are not run again under a watch: Python is slower still then.
_LONGEST_S: Final = 0.5
# Slower ones are made no more batches of than it takes to time them.
_SLOWEST_S: Final = 1.0
# Handing a batch over from another process takes as long as making a quicker one.
_BRIEF_S: Final = 1e-3
# A process that takes so long hangs.
_HANGING_S: Final = 30.0
# Where all threads together take no longer than this, times what they would at best, they do.
_HELPED: Final = 1.25
# Of a loader's time, what one statement must take to be the one to look at.
_MOST: Final = 0.5
# A statement that fills so many times the memory of a batch may do so for more than that batch.
_MANY: Final = 8
_LEAST_BYTES: Final = 1 << 20
# Of what it fills, an array that it is a copy of: each op on the array makes another one.
_OF_COPIES: Final = 0.2


def measure_loader_stages(feed: Feed) -> tuple[Stage, ...]:
    """The stage behind a feed that is no tf.data pipeline; empty for plain arrays.

    Args:
        feed: Of the training; a ``PyDataset`` is asked for some of its batches, and draws what it
            would have drawn all the same if its generators are NumPy's.
    """
    if isinstance(feed.x, SharedGenerator):
        return (_generator_stage(feed.x),)
    if feed.kind != "pydataset":
        return ()
    with preserve_random_states(feed.x):
        return (_stage(feed.x),)


def _stage(dataset: Any) -> Stage:
    cost = _cost(dataset)
    workers = worker_count(dataset)
    needs: Dependence = "more"
    if cost.wall_s <= _SLOWEST_S:
        needs = find_dependence(dataset, cost.looks)
    in_threads = needs != "more" and workers == 1 and not has_epoch_begin_hook(dataset)
    together_s = _in_threads(dataset, cost) if in_threads else None
    apart_s = _in_processes(dataset, cost, together_s, draws=needs == "draws")
    watched = _watched(dataset) if cost.wall_s <= _LONGEST_S else ()
    most = max(watched, key=lambda s: s.share, default=None)
    single_s = _in_single(dataset, cost)
    return Stage(
        index=0,
        kind="pydataset",
        at=_place(dataset, most.line if most is not None and most.share >= _MOST else None),
        name=type(dataset).__name__,
        cpu_s_per_element=cost.cpu_s,
        wall_s_per_element=cost.wall_s,
        threaded_wall_s_per_element=together_s,
        multiprocess_wall_s_per_element=apart_s,
        memoization=_keepable(dataset, cost) if needs == "index" else None,
        float32_cpu_s_per_element=single_s,
        float64_at=None if single_s is None else _wide_at(dataset),
        bytes_per_element=cost.bytes or None,
        elements_per_step=1.0,
        parallelism=workers if workers > 1 else 1,
        is_random=needs != "index",
        has_python_code=True,
        array_copy=_copied(dataset, watched, cost.bytes),
    )


def _generator_stage(generator: SharedGenerator) -> Stage:
    cost = _cost_of(lambda _index: generator.next_batch(), range(_BATCHES + 1))
    watched: tuple[StatementCost, ...] = ()
    if cost.wall_s <= _LONGEST_S:
        with suppress(Exception):  # the user's code, which may mind being watched
            watched = profile_statements(generator.function, generator.next_batch)
    most = max(watched, key=lambda s: s.share, default=None)
    one = most if most is not None and most.share >= _MOST else None
    return Stage(
        index=0,
        kind="generator",
        at=format_location(generator.code.co_filename, one.line) if one else generator.location,
        name=generator.name,
        cpu_s_per_element=cost.cpu_s,
        wall_s_per_element=cost.wall_s,
        bytes_per_element=cost.bytes or None,
        elements_per_step=1.0,
        parallelism=1,
        is_random=True,
        has_python_code=True,
    )


@dataclass(frozen=True)
class _Cost:
    """Of one batch, made and copied into tensors.

    Attributes:
        cpu_s: CPU seconds.
        wall_s: Elapsed seconds.
        handing_over_s: Of these, for copying it.
        bytes: Of the arrays of the largest.
    """

    cpu_s: float
    wall_s: float
    handing_over_s: float
    bytes: int

    @property
    def looks(self) -> int:
        """Batches to make for a further question."""
        many, few = _LOOKS
        return many if self.wall_s <= _LONGEST_S else few


def _cost(dataset: Any) -> _Cost:
    length = dataset.num_batches
    indices = itertools.islice(itertools.cycle(range(length or _BATCHES + 1)), _BATCHES + 1)
    return _cost_of(dataset.__getitem__, indices)


def _cost_of(make: Callable[[int], Any], given: Iterable[int]) -> _Cost:
    indices = iter(given)
    nbytes = values_bytes(make(next(indices)))
    handing_over_s, cpu, begin = 0.0, time.process_time(), time.perf_counter()
    for index in indices:
        made, before = make(index), time.perf_counter()
        nbytes = max(nbytes, values_bytes(made))
        _hand_over(made)
        handing_over_s += time.perf_counter() - before
    cpu_s, wall_s = time.process_time() - cpu, time.perf_counter() - begin
    return _Cost(cpu_s / _BATCHES, wall_s / _BATCHES, handing_over_s / _BATCHES, nbytes)


def _keepable(dataset: Any, cost: _Cost) -> Memoization | None:
    if not has_identical_epochs(dataset) or not cost.bytes:
        return None
    return Memoization(
        total_bytes=cost.bytes * dataset.num_batches, hit_wall_s_per_element=cost.handing_over_s
    )


def _in_threads(dataset: Any, cost: _Cost) -> float | None:
    """Elapsed seconds of a batch where every core has a thread that makes some."""
    threads = min(MAX_WORKERS, math.ceil(usable_cpus()))
    if threads < 2:
        return None
    indices = itertools.cycle(range(dataset.num_batches or _BATCHES + 1))
    before = state_digest(dataset)
    with suppress(Exception), ThreadPoolExecutor(threads) as pool:  # not made for threads
        list(pool.map(dataset.__getitem__, itertools.islice(indices, threads)))
        begin = time.perf_counter()
        list(pool.map(dataset.__getitem__, itertools.islice(indices, cost.looks * threads)))
        seconds = (time.perf_counter() - begin) / (cost.looks * threads)
        return seconds if state_digest(dataset) == before else None
    return None


def _in_processes(
    dataset: Any, cost: _Cost, together_s: float | None, *, draws: bool
) -> float | None:
    """Elapsed seconds of a batch where every core has a process that makes some.

    Tried where threads leave something: they have no part in Python that computes.
    """
    processes = min(MAX_PROCESSES, math.ceil(usable_cpus()))
    if together_s is None or cost.wall_s < _BRIEF_S or fork_refusal(dataset):
        return None
    if together_s < _HELPED * cost.wall_s / processes:
        return None
    indices = itertools.cycle(range(dataset.num_batches or _BATCHES + 1))
    begin, ours = time.perf_counter(), PREFETCHED_BATCHES_PER_WORKER * cost.looks * processes
    makers = None
    try:
        makers = BatchWorkers(dataset.__getitem__, processes, is_random=draws)
        _made_by(makers, itertools.islice(indices, processes))
        begun_s, begin = time.perf_counter() - begin, time.perf_counter()
        _made_by(makers, itertools.islice(indices, ours))
        seconds = (time.perf_counter() - begin) / ours
        makers.close()
        return seconds + begun_s / (dataset.num_batches or math.inf)
    except Exception:  # none begins, or one hangs, or what it makes cannot be handed over
        if makers is not None:
            makers.close(is_immediate=True)
        return None


def _made_by(makers: BatchWorkers, indices: Iterable[int]) -> None:
    for asked in [makers.submit(index) for index in indices]:
        asked.result(_HANGING_S)


def _watched(dataset: Any) -> tuple[StatementCost, ...]:
    method = user_getitem(dataset)
    with suppress(Exception):  # the user's code, which may mind being watched
        return () if method is None else profile_statements(method, lambda: dataset[0])
    return ()


def _copied(dataset: Any, watched: Sequence[StatementCost], used_bytes: int) -> ArrayCopy | None:
    """The costliest statement that copies an array much larger than the batch.

    It is known by what it fills, and by an array of such a size that the loader reads from: a
    decoder fills much memory, too, and nobody could pick the rows before.
    """
    largest = max((array.nbytes for array in reachable_arrays(dataset)), default=0)
    least = max(_LEAST_BYTES, _MANY * used_bytes)
    wasteful = [
        statement
        for statement in watched
        if least <= statement.allocated_bytes <= largest / _OF_COPIES and largest >= least
    ]
    most = max(wasteful, key=lambda s: s.share, default=None)
    if most is None or not used_bytes:
        return None
    at = _place(dataset, most.line)
    return ArrayCopy(
        at=at, share=most.share, copied_bytes=most.allocated_bytes, batch_bytes=used_bytes
    )


def _in_single(dataset: Any, cost: _Cost) -> float | None:
    """CPU seconds of a batch, had its numbers four bytes; that the step narrows them counts too.

    Of all pairs the one with the least difference says what is sure.
    """
    if cost.wall_s > _LONGEST_S:
        return None
    method, single = user_getitem(dataset), create_float32_loader(dataset)
    if method is None or single is None:
        return None
    with suppress(Exception):  # a loader that insists on what it was given
        loaders = method.__get__(dataset), single
        pairs = [[_handed_over_s(load) for load in loaders] for _ in range(_PAIRS)]
        ratio = max(narrow / wide for wide, narrow in pairs[1:])
        return cost.cpu_s * min(1.0, ratio)
    return None


def _wide_at(dataset: Any) -> str | None:
    wide = [array for array in reachable_arrays(dataset) if array.dtype == np.float64]
    return find_array_origin(max(wide, key=lambda array: array.nbytes)) if wide else None


def _handed_over_s(load: Callable[[int], Any]) -> float:
    """CPU seconds of a batch, made, copied into tensors and narrowed."""
    begin = time.process_time()
    for tensor in _hand_over(load(0)):
        if tensor.dtype.is_floating:
            tf.cast(tensor, tf.float32)
    return time.process_time() - begin


def _hand_over(batch: Any) -> list[Any]:
    """Copied into tensors in the host's memory, as Keras does on the loader's thread."""
    leaves = [leaf for leaf in keras.tree.flatten(batch) if isinstance(leaf, np.ndarray)]
    with suppress(ValueError, TypeError), tf.device("/device:CPU:0"):
        return [tf.constant(leaf) for leaf in leaves]
    return []


def _place(dataset: Any, line: int | None) -> str | None:
    """``file.py:line`` of a line of the method that makes a batch; of its first one if None."""
    method = user_getitem(dataset)
    try:
        path = inspect.getsourcefile(method) if method else None
        line = line or inspect.getsourcelines(method)[1]  # type: ignore[arg-type]
    except (OSError, TypeError):
        return None
    if path is None:
        return None
    shown = os.path.relpath(path)
    return f"{path if shown.startswith('..') else Path(shown)}:{line}"
