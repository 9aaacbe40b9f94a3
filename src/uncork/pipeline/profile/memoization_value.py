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

from uncork.core.edits.edit import MAX_WORKERS
from uncork.core.evidence.stage import Memoization
from uncork.measure.machine.probe import usable_cpus
from uncork.pipeline.analysis.legality import is_random
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.python_functions import (
    has_memoized_python,
    has_repeatable_python_calls,
    has_wrapped_generator,
    python_digest,
    python_functions,
    record_python_calls,
    user_generator_of,
)
from uncork.pipeline.profile.probes import run_serially
from uncork.pipeline.profile.stage_measurement import StageMeasurement
from uncork.pycode.purity.index_dependence import find_dependence
from uncork.pycode.purity.memoized_function import (
    RESULT_OVERHEAD_BYTES,
    MemoizedFunction,
    copy_for_tensorflow,
    size_in_bytes,
)
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
class MemoizationCost:
    """What is known of Python code that makes the same whenever it is asked the same.

    Attributes:
        memoization: What keeping all of it would take.
        threaded_wall_s: Of functions in a map, elapsed seconds of a call of all where each core has
            a thread that calls.
    """

    memoization: Memoization
    threaded_wall_s: float | None


class RecordedCalls:
    """Calls of one function, each by its index: what :func:`find_dependence` watches.

    Args:
        function: Of the user's.
        call_arguments: The arguments of each call.
    """

    def __init__(
        self, function: Callable[..., Any], call_arguments: Sequence[tuple[Any, ...]]
    ) -> None:
        self.function = function
        self.call_arguments = tuple(call_arguments)

    @property
    def num_batches(self) -> int:
        """How many there are."""
        return len(self.call_arguments)

    def __getitem__(self, index: int) -> Any:
        """What the function answers."""
        return self.function(*self.call_arguments[index])


class GeneratorBeginning:
    """The beginning of what a generator yields, as the one batch of a loader.

    Args:
        function: Of the user's.
        element_count: How many of them.
    """

    num_batches = 1

    def __init__(self, function: Callable[[], Iterable[Any]], element_count: int) -> None:
        self.function = function
        self.element_count = element_count

    def __getitem__(self, index: int) -> list[Any]:
        """What comes first."""
        return list(itertools.islice(self.function(), self.element_count))


def measure_memoization(stage: StageMeasurement, elements: int | None) -> MemoizationCost | None:
    """Watch the Python functions of a map, or a generator.

    Args:
        stage: Timed already.
        elements: That it gives in a pass; None where there was no time to count them.

    Returns:
        None where they are not seen to answer by what they are asked alone, where they are asked
        other things in every pass, or too slow to be watched.
    """
    if stage.wall_s is None or stage.wall_s > _LONGEST_S or has_memoized_python(stage.node):
        return None
    if stage.node.kind == "map" and elements:
        return _of_map(stage, elements, stage.wall_s)
    if stage.node.kind == "from_generator":
        return _of_generator(stage, elements, stage.wall_s)
    return None


def _of_map(stage: StageMeasurement, elements: int, wall_s: float) -> MemoizationCost | None:
    (function,) = stage.node.functions
    functions = python_functions(function)
    if not (
        functions and has_repeatable_python_calls(function) and _come_again(stage.node.inputs[0])
    ):
        return None
    most = _LOOKS[0] if wall_s <= _LONG_S else _LOOKS[1]
    with record_python_calls(function) as noted, suppress(tf.errors.OpError):
        for _ in run_serially(stage.dataset).take(most):
            pass
    watched = [RecordedCalls(functions[token], asked[:most]) for token, asked in noted.items()]
    if not all(
        calls.call_arguments and find_dependence(calls, most) == "index" for calls in watched
    ):
        return None
    made_s, kept_s, size = (sum(each) for each in zip(*map(_costs, watched), strict=True))
    return MemoizationCost(
        memoization=Memoization(
            total_bytes=math.ceil(size * elements),
            hit_wall_s_per_element=max(0.0, wall_s - max(0.0, made_s - kept_s)),
            code_digest=python_digest(function),
        ),
        threaded_wall_s=_in_threads(watched),
    )


def _of_generator(
    stage: StageMeasurement, elements: int | None, wall_s: float
) -> MemoizationCost | None:
    function = user_generator_of(stage.node)
    if function is None or has_wrapped_generator(stage.node):
        return None
    passes = GeneratorBeginning(function, _FIRST if wall_s <= _QUICK_S else _LOOKS[0])
    if find_dependence(passes) != "index":
        return None
    begin = time.perf_counter()
    made = passes[0]
    made_s = time.perf_counter() - begin
    begin = time.perf_counter()
    size = sum(size_in_bytes(copy_for_tensorflow(element)) for element in made)
    kept_s = time.perf_counter() - begin
    if not made:
        return None
    spared_s = max(0.0, made_s - kept_s) / len(made)
    return MemoizationCost(
        memoization=Memoization(
            total_bytes=math.ceil(size / len(made) * (elements or 0)),
            hit_wall_s_per_element=max(0.0, wall_s - spared_s),
            code_digest=function_digest(function),
            element_count=elements or 0,
        ),
        threaded_wall_s=None,
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


def _costs(calls: RecordedCalls) -> tuple[float, float, float]:
    """Seconds of a call, of one that is answered already, and bytes of an answer."""
    kept = MemoizedFunction(calls.function, 1 << 40)
    made_s = [_seconds(kept, asked) for asked in calls.call_arguments]
    kept_s = [_seconds(kept, asked) for asked in calls.call_arguments]
    size = statistics.mean(size_in_bytes(calls[index]) for index in range(calls.num_batches))
    size += RESULT_OVERHEAD_BYTES
    return statistics.median(made_s), statistics.median(kept_s), size


def _seconds(function: Callable[..., Any], asked: tuple[Any, ...]) -> float:
    begin = time.perf_counter()
    function(*asked)
    return time.perf_counter() - begin


def _in_threads(watched: Sequence[RecordedCalls]) -> float | None:
    """Elapsed seconds of a call of all, made on every core at once."""
    threads = min(MAX_WORKERS, math.ceil(usable_cpus()))
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
