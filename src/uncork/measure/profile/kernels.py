"""Which kernels ran, and for how long: TensorFlow's profiler, read in this process.

Nothing of its trace is kept on disk.
"""

from __future__ import annotations

import re
import statistics
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tensorflow as tf

from uncork.compat.tf.protos import XSpace
from uncork.core.base.owned_folder import owned_folder
from uncork.measure.profile.xplane import WAITING_OP, Op, Span, gpu_streams, host_threads

# After some ninety runs that were cheap TensorFlow no longer tells of a kernel.
_TOLD: Final = 80
# In the name of an op in a loop that the graph itself runs.
_IN_LOOP: Final = re.compile(r"/(?:body|cond)/_\d+/")
# Times an op's median step: what took longer was put aside by the system while it ran.
_LONGEST: Final = 10.0


@dataclass(frozen=True)
class Kernel:
    """One op of a graph, as it ran in one step.

    Attributes:
        name: Of the op in its function, with its scopes; in a loop with those of the loop.
        kind: ``MatMul``, say, whether the kernel is TensorFlow's own, oneDNN's or CUDA's.
        calls_per_step: How often it ran; not a whole number where steps differ. On a GPU, one op
            may take several kernels, each of which counts.
        seconds: What that took, with what the runtime did until the next one. Where several ran at
            once, each counts in part, so that all kernels together take as long as their graph. No
            step counts for more than ten times the median one.
    """

    name: str
    kind: str
    calls_per_step: float
    seconds: float


def profile_kernels(run_steps: Callable[[], object], *, on_gpu: bool = False) -> tuple[Kernel, ...]:
    """Let some steps run and tell which kernels ran in each.

    Args:
        run_steps: Runs at least one, best right after ``clear_kernel_cache``: a trace leaves out
            kernels that were cheap in some ninety runs, which may take most of a step together.
        on_gpu: Tell those of the first GPU; else those of this host's processor, which on a GPU
            would be the time to start kernels, not the time that they take.

    Returns:
        Nothing where there is no GPU to tell of, or CUDA's tracer is not allowed to.

    Raises:
        tensorflow.errors.AlreadyExistsError: Somebody profiles already.

    Example:
        >>> step = tf.function(lambda x: x @ x, autograph=False)
        >>> ones = tf.ones((64, 64))
        >>> [
        ...     kernel.kind
        ...     for kernel in profile_kernels(lambda: step(ones))
        ...     if kernel.kind == "MatMul"
        ... ]
        ['MatMul']
    """
    # No options: TensorFlow 2.21 warns of each and takes none. That of a GPU begins in 0.02 s.
    with owned_folder() as folder:
        tf.profiler.experimental.start(folder)
        try:
            run_steps()
        finally:
            tf.profiler.experimental.stop()
        space = XSpace()
        for file in Path(folder).glob("plugins/profile/*/*.xplane.pb"):
            space.MergeFromString(file.read_bytes())
    return kernels_from_spans(gpu_streams(space) if on_gpu else host_threads(space))


def kernels_from_spans(spans_by_thread: Sequence[Sequence[Span]]) -> tuple[Kernel, ...]:
    """The kernels in a trace, those that took longest first.

    Args:
        spans_by_thread: Of a host, or streams of a GPU; the spans of each, outer ones before those
            inside.
    """
    ops = sorted(s for spans in spans_by_thread for s in spans if s.op not in (None, WAITING_OP))
    if not ops:
        return ()
    borders = _steps(ops)
    begin, end, steps = borders[0], borders[-1], len(borders) - 1
    calls = Counter(span.op for span in ops if begin <= span.begin < end)
    at_work = ([m for m in _innermost(spans) if m.op != WAITING_OP] for spans in spans_by_thread)
    moments = [m for spans in at_work for m in _with_runtime(spans)]
    each_step = [_shared(moments) for moments in _by_step(moments, borders)]
    found = [
        Kernel(*op, calls[op] / steps, _mean([seconds.get(op, 0.0) for seconds in each_step]))
        for op in dict.fromkeys(op for seconds in each_step for op in seconds)
    ]
    return tuple(sorted(found, key=lambda kernel: -kernel.seconds))


def _steps(ops: Sequence[Span]) -> list[int]:
    """Where each step begins, and the last one ends.

    As many as there are before the trace leaves out what has become known as cheap, and not the
    first one where there are others. What ran once made the data ready.
    """
    counts = Counter(span.op for span in ops if span.op and not _IN_LOOP.search(span.op[0]))
    again = [count for count in counts.values() if count > 1]
    each_step = statistics.mode(again) if again else 1
    once = next((span.op for span in ops if span.op and counts[span.op] == each_step), None)
    begins = [span.begin for span in ops if span.op == once]
    if each_step == 1 or not begins:
        return [ops[0].begin, max(span.end for span in ops)]
    seen: Counter[Op | None] = Counter()
    told = len(begins) - 1
    for span in ops:
        seen[span.op] += 1
        if seen[span.op] > _TOLD:
            told = max(1, sum(begin <= span.begin for begin in begins) - 1)
            break
    return begins[int(told > 1) : told + 1]


def _by_step(moments: Sequence[Span], borders: Sequence[int]) -> list[list[Span]]:
    """The moments of each step; one that lasts into the next is cut in two."""
    steps: list[list[Span]] = [[] for _ in borders[1:]]
    for moment in moments:
        first = max(0, bisect_right(borders, moment.begin) - 1)
        for step in range(first, len(steps)):
            if moment.end <= borders[step]:
                break
            begin, end = max(moment.begin, borders[step]), min(moment.end, borders[step + 1])
            steps[step].append(Span(begin, end, moment.op))
    return steps


def _mean(seconds: Sequence[float]) -> float:
    """Of an op's steps. One in which its thread was put aside tells nothing of the op."""
    longest = _LONGEST * statistics.median(seconds) or max(seconds)
    return sum(min(each, longest) for each in seconds) / len(seconds)


def _innermost(spans: Sequence[Span]) -> Iterator[Span]:
    """What the thread was at, moment after moment."""
    running: list[Span] = []
    at = 0
    for span in (*spans, None):
        while running and (span is None or running[-1].end <= span.begin):
            done = running.pop()
            if at < done.end:
                yield Span(at, done.end, done.op)
            at = max(at, done.end)
        if span is not None:
            if running and at < span.begin:
                yield Span(at, span.begin, running[-1].op)
            running.append(span)
            at = span.begin


def _with_runtime(moments: Sequence[Span]) -> Iterator[Span]:
    """Of one thread; what the runtime does counts for the op before."""
    before = next((moment.op for moment in moments if moment.op is not None), None)
    for moment in moments:
        before = moment.op or before
        yield moment._replace(op=before)


def _shared(moments: Sequence[Span]) -> dict[Op, float]:
    """Seconds of each op, where those that run at once share the time."""
    edges = [(m.begin, 1, m.op) for m in moments if m.op is not None and m.begin < m.end]
    edges += [(m.end, -1, m.op) for m in moments if m.op is not None and m.begin < m.end]
    seconds: dict[Op, float] = {}
    running: Counter[Op] = Counter()
    last = 0
    for at, change, op in sorted(edges):
        if running:
            each = (at - last) / 1e12 / running.total()
            for other, count in running.items():
                seconds[other] = seconds.get(other, 0.0) + count * each
        running[op] += change
        if not running[op]:
            del running[op]
        last = at
    return seconds
