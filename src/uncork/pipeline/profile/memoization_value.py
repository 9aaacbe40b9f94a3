"""What it would take, and spare, to keep what Python code in a pipeline makes."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from uncork.core.edits.edit import MOST_WORKERS
from uncork.core.evidence.stage import Keepable
from uncork.measure.machine.probe import cpus
from uncork.pipeline.analysis.legality import is_random
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.python_functions import (
    asks_again,
    generator_of,
    hands_over_otherwise,
    keeps_python,
    noting_calls,
    python_digest,
    python_functions,
)
from uncork.pipeline.profile.probes import serially
from uncork.pipeline.profile.stage_measurement import Measured
from uncork.pycode.purity.index_dependence import dependence
from uncork.pycode.purity.memoized_function import ANSWER_BYTES, KeptCalls, copied, size_of
from uncork.pycode.purity.reachability import function_digest

# Calls that are made again, and of functions that take longer.
_LOOKS: Final = (4, 2)
_LONG_S: Final = 0.5
# Elements of a generator that are made again, where they are made so soon; else as few as calls.
_FIRST: Final = 16
_QUICK_S: Final = 0.02
# Slower ones are called no more often than it takes to see that.
_LONGEST_S: Final = 1.0
# Above a shuffle, they put other elements together in every pass, or give others.
_GROUPING: Final = frozenset({
    "batch", "padded_batch", "window", "rebatch", "group_by_window", "to_ragged", "scan", "take",
    "skip", "shard", "take_while",
})  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What is known of Python code that makes the same whenever it is asked the same.

    Attributes:
        keepable: What keeping all of it would take.
        threads_wall_s: Of functions in a map, elapsed seconds of a call of all where each core has
            a thread that calls.
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


class Passes:
    """The beginning of what a generator yields, as the one batch of a loader.

    Args:
        function: Of the user's.
        elements: How many of them.
    """

    num_batches = 1

    def __init__(self, function: Callable[[], Iterable[Any]], elements: int) -> None:
        self.function = function
        self.elements = elements

    def __getitem__(self, index: int) -> list[Any]:
        """What comes first."""
        return list(itertools.islice(self.function(), self.elements))


def asked_of(stage: Measured, elements: int | None) -> Asked | None:
    """Watch the Python functions of a map, or a generator.

    Args:
        stage: Timed already.
        elements: That it gives in a pass; None where there was no time to count them.

    Returns:
        None where they are not seen to answer by what they are asked alone, where they are asked
        other things in every pass, or too slow to be watched.
    """
    if stage.wall_s is None or stage.wall_s > _LONGEST_S or keeps_python(stage.node):
        return None
    if stage.node.kind == "map" and elements:
        return _of_map(stage, elements, stage.wall_s)
    if stage.node.kind == "from_generator":
        return _of_generator(stage, elements, stage.wall_s)
    return None


def _of_map(stage: Measured, elements: int, wall_s: float) -> Asked | None:
    (function,) = stage.node.functions
    functions = python_functions(function)
    if not (functions and asks_again(function) and _come_again(stage.node.inputs[0])):
        return None
    most = _LOOKS[0] if wall_s <= _LONG_S else _LOOKS[1]
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
            wall_s_per_element=max(0.0, wall_s - max(0.0, made_s - kept_s)),
            code=python_digest(function),
        ),
        threads_wall_s=_in_threads(watched),
    )


def _of_generator(stage: Measured, elements: int | None, wall_s: float) -> Asked | None:
    function = generator_of(stage.node)
    if function is None or hands_over_otherwise(stage.node):
        return None
    passes = Passes(function, _FIRST if wall_s <= _QUICK_S else _LOOKS[0])
    if dependence(passes) != "index":
        return None
    begin = time.perf_counter()
    made = passes[0]
    made_s = time.perf_counter() - begin
    begin = time.perf_counter()
    size = sum(size_of(copied(element)) for element in made)
    kept_s = time.perf_counter() - begin
    if not made:
        return None
    spared_s = max(0.0, made_s - kept_s) / len(made)
    return Asked(
        keepable=Keepable(
            bytes=math.ceil(size / len(made) * (elements or 0)),
            wall_s_per_element=max(0.0, wall_s - spared_s),
            code=function_digest(function),
            elements=elements or 0,
        ),
        threads_wall_s=None,
    )


def _come_again(node: Node) -> bool:
    """The same elements in every pass, in whatever order."""
    shuffled = False
    for each in _below(node):
        shuffles = each.kind == "shuffle" and is_random(each)
        if is_random(each) and not shuffles:
            return False
        shuffled = shuffled or shuffles
    return not shuffled or not _chosen(node, chosen=False)


def _chosen(node: Node, *, chosen: bool) -> bool:
    """Whether some of what a shuffle gives is put together, or left out, by its place."""
    if chosen and node.kind == "shuffle" and is_random(node):
        return True
    chosen = chosen or node.kind in _GROUPING
    return any(_chosen(below, chosen=chosen) for below in node.inputs)


def _below(node: Node) -> Iterable[Node]:
    yield node
    for below in node.inputs:
        yield from _below(below)


def _costs(calls: Calls) -> tuple[float, float, float]:
    """Seconds of a call, of one that is answered already, and bytes of an answer."""
    kept = KeptCalls(calls.function, 1 << 40)
    made_s = [_seconds(kept, asked) for asked in calls.asked]
    kept_s = [_seconds(kept, asked) for asked in calls.asked]
    size = statistics.mean(size_of(calls[index]) for index in range(calls.num_batches))
    size += ANSWER_BYTES
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
        begin = time.perf_counter()
        list(pool.map(call, range(threads)))
        took = time.perf_counter() - begin
        if took > _LONG_S * threads:
            return took / threads
        begin = time.perf_counter()
        list(pool.map(call, range(rounds)))
        return (time.perf_counter() - begin) / rounds
    return None
