"""What it would take, and spare, to keep what the Python functions of a map answer."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.core.edit import MOST_WORKERS
from uncork.core.stage import Keepable
from uncork.measure.machine import cpus
from uncork.pipeline.kept_calls import KeptCalls
from uncork.pipeline.legality import is_random
from uncork.pipeline.measured import Measured
from uncork.pipeline.node import Node
from uncork.pipeline.probes import serially
from uncork.pipeline.python_calls import (
    asks_again,
    keeps_calls,
    noting_calls,
    python_digest,
    python_functions,
)
from uncork.watch import dependence

# Calls that are made again, and of functions that take longer.
_LOOKS: Final = (4, 2)
_LONG_S: Final = 0.5
# Slower ones are called no more often than it takes to see that.
_LONGEST_S: Final = 1.0
# Above a shuffle, they put other elements together in every pass.
_GROUPING: Final = frozenset({
    "batch", "padded_batch", "window", "rebatch", "group_by_window", "to_ragged", "scan",
})  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What is known of a map's Python functions, which answer by what they are asked alone.

    Attributes:
        keepable: What keeping their answers would take.
        threads_wall_s: Elapsed seconds of a call of all where each core has a thread that calls.
    """

    keepable: Keepable
    threads_wall_s: float | None


class Calls:
    """Calls of one function, each by its index: what :func:`dependence` watches.

    Args:
        function: Of the user's.
        asked: The arguments of each call.
    """

    def __init__(self, function: Callable[..., Any], asked: Sequence[tuple[Any, ...]]) -> None:
        self.function = function
        self.asked = tuple(asked)

    @property
    def num_batches(self) -> int:
        """How many there are."""
        return len(self.asked)

    def __getitem__(self, index: int) -> Any:
        """What the function answers."""
        return self.function(*self.asked[index])


def asked_of(stage: Measured, elements: int | None) -> Asked | None:
    """Watch the Python functions of a map.

    Args:
        stage: Timed already.
        elements: That it gives in a pass.

    Returns:
        None where they are not seen to answer by what they are asked alone, where they are asked
        other things in every pass, or too slow to be watched.
    """
    node = stage.node
    if node.kind != "map" or not elements or stage.wall_s is None or stage.wall_s > _LONGEST_S:
        return None
    (function,) = node.functions
    functions = python_functions(function)
    if not functions or keeps_calls(function) or not asks_again(function):
        return None
    if not _come_again(node.inputs[0]):
        return None
    most = _LOOKS[0] if stage.wall_s <= _LONG_S else _LOOKS[1]
    with noting_calls(function) as noted, suppress(tf.errors.OpError):
        for _ in serially(stage.dataset).take(most):
            pass
    watched = [Calls(functions[token], asked[:most]) for token, asked in noted.items()]
    if not all(calls.asked and dependence(calls, most) == "index" for calls in watched):
        return None
    made_s, kept_s, size = (sum(each) for each in zip(*map(_costs, watched), strict=True))
    return Asked(
        keepable=Keepable(
            bytes=math.ceil(size * elements),
            wall_s_per_element=max(0.0, stage.wall_s - max(0.0, made_s - kept_s)),
            code=python_digest(function),
        ),
        threads_wall_s=_in_threads(watched),
    )


def _come_again(node: Node) -> bool:
    """The same elements in every pass, in whatever order."""
    shuffled = False
    for each in _below(node):
        shuffles = each.kind == "shuffle" and is_random(each)
        if is_random(each) and not shuffles:
            return False
        shuffled = shuffled or shuffles
    return not (shuffled and any(each.kind in _GROUPING for each in _below(node)))


def _below(node: Node) -> Iterable[Node]:
    yield node
    for below in node.inputs:
        yield from _below(below)


def _costs(calls: Calls) -> tuple[float, float, float]:
    """Seconds of a call, of one that is answered already, and bytes of an answer."""
    kept = KeptCalls(calls.function, 1 << 40)
    made_s = [_seconds(kept, asked) for asked in calls.asked]
    kept_s = [_seconds(kept, asked) for asked in calls.asked]
    answers = [tf.nest.flatten(calls[index]) for index in range(calls.num_batches)]
    size = statistics.mean(sum(np.asarray(leaf).nbytes for leaf in answer) for answer in answers)
    return statistics.median(made_s), statistics.median(kept_s), size


def _seconds(function: Callable[..., Any], asked: tuple[Any, ...]) -> float:
    begin = time.perf_counter()
    function(*asked)
    return time.perf_counter() - begin


def _in_threads(watched: Sequence[Calls]) -> float | None:
    """Elapsed seconds of a call of all, made on every core at once."""
    threads = min(MOST_WORKERS, math.ceil(cpus()))
    if threads < 2:
        return None

    def call(index: int) -> None:
        for calls in watched:
            calls[index % calls.num_batches]

    rounds = threads * _LOOKS[0]
    with suppress(Exception), ThreadPoolExecutor(threads) as pool:  # not made for threads
        list(pool.map(call, range(threads)))
        begin = time.perf_counter()
        list(pool.map(call, range(rounds)))
        return (time.perf_counter() - begin) / rounds
    return None
