"""Which kernels ran, and for how long: TensorFlow's profiler, read in this process.

Its trace holds one event for every execution of a kernel, named ``scope/of/the/op:Kind``. Nothing
of it is kept on disk.
"""

from __future__ import annotations

import re
import statistics
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.tsl.profiler.protobuf import xplane_pb2

# Of the trace: kernels, no details of them.
_LEVEL: Final = 2
# After some ninety runs that were cheap TensorFlow no longer tells of a kernel.
_TOLD: Final = 80
_OP: Final = re.compile(r"([^\s:]+):([A-Za-z_]\w*)")
# Functions are inlined before they run: what stands before their ops' own names.
_CALLED: Final = re.compile(r".*(?:^|/)(?:Stateful)?PartitionedCall(?:_\d+)?/")
# What the runtime does between the kernels, and how it tells those that may return before they end.
_RUNTIME: Final = "ExecutorState::Process"
_ASYNCHRONOUS: Final = "ExecutorState::ProcessAsync::Start"
# oneDNN's kernels, on processors where TensorFlow lets them stand in for its own ones.
_ONEDNN: Final = re.compile(r"^_Mkl(?:Native)?(?!ToTf)(?=(Fused)?)")
# In the name of an op in a loop that the graph itself runs.
_IN_LOOP: Final = re.compile(r"/(?:body|cond)/_\d+/")
# Times an op's median step: what took longer was put aside by the system while it ran.
_LONGEST: Final = 10.0
_HOST: Final = "/host:CPU"

_Op = tuple[str, str]


@dataclass(frozen=True)
class Kernel:
    """One op of a graph, as it ran in one step.

    Attributes:
        name: Of the op in its function, with its scopes; in a loop with those of the loop.
        kind: ``MatMul``, say, whether the kernel is TensorFlow's own or oneDNN's.
        calls: How often it ran; not a whole number where steps differ.
        seconds: What that took, with what the runtime did until the next one. Where several ran at
            once, each counts in part, so that all kernels together take as long as their graph. No
            step counts for more than ten times the median one.
    """

    name: str
    kind: str
    calls: float
    seconds: float


def forget_kernels() -> None:
    """Let TensorFlow make its kernels anew, which trains nothing but resets old random ops.

    It leaves those out of a trace that it has found to be cheap, after some ninety runs; together
    they may take most of a step.
    """
    context.context().clear_kernel_cache()


def profiled(steps: Callable[[], object]) -> tuple[Kernel, ...]:
    """Let some steps run and tell which kernels of this host's processor ran in each.

    Args:
        steps: Runs at least one, best right after :func:`forget_kernels`.

    Raises:
        tensorflow.errors.AlreadyExistsError: Somebody profiles already.

    Example:
        >>> step = tf.function(lambda x: x @ x, autograph=False)
        >>> ones = tf.ones((64, 64))
        >>> [kernel.kind for kernel in profiled(lambda: step(ones)) if kernel.kind == "MatMul"]
        ['MatMul']
    """
    # Nothing of an accelerator is read, whose tracer may take seconds to begin, or not be allowed.
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=_LEVEL, device_tracer_level=0
    )
    with tempfile.TemporaryDirectory(prefix="uncork-") as folder:
        tf.profiler.experimental.start(folder, options=options)
        try:
            steps()
        finally:
            tf.profiler.experimental.stop()
        space = xplane_pb2.XSpace()
        for file in Path(folder).glob("plugins/profile/*/*.xplane.pb"):
            space.MergeFromString(file.read_bytes())
    return kernels_of(space)


def kernels_of(space: Any) -> tuple[Kernel, ...]:
    """The kernels in a trace, those that took longest first.

    Args:
        space: An ``XSpace``.
    """
    lines = [(plane, line) for plane in space.planes if plane.name == _HOST for line in plane.lines]
    threads = [list(_spans(plane, line)) for plane, line in lines]
    ops = sorted(span for spans in threads for span in spans if span.op is not None)
    if not ops:
        return ()
    borders = _steps(ops)
    begin, end, steps = borders[0], borders[-1], len(borders) - 1
    calls = Counter(span.op for span in ops if begin <= span.begin < end)
    moments = [m for spans in threads for m in _with_runtime(list(_innermost(spans)))]
    each_step = [_shared(moments) for moments in _by_step(moments, borders)]
    found = [
        Kernel(*op, calls[op] / steps, _mean([seconds.get(op, 0.0) for seconds in each_step]))
        for op in dict.fromkeys(op for seconds in each_step for op in seconds)
    ]
    return tuple(sorted(found, key=lambda kernel: -kernel.seconds))


class _Span(NamedTuple):
    """Of one thread, in picoseconds; without an op, the runtime itself is at work."""

    begin: int
    end: int
    op: _Op | None


def _steps(ops: Sequence[_Span]) -> list[int]:
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
    seen: Counter[_Op | None] = Counter()
    told = len(begins) - 1
    for span in ops:
        seen[span.op] += 1
        if seen[span.op] > _TOLD:
            told = max(1, sum(begin <= span.begin for begin in begins) - 1)
            break
    return begins[int(told > 1) : told + 1]


def _by_step(moments: Sequence[_Span], borders: Sequence[int]) -> list[list[_Span]]:
    """The moments of each step; one that lasts into the next is cut in two."""
    steps: list[list[_Span]] = [[] for _ in borders[1:]]
    for moment in moments:
        first = max(0, bisect_right(borders, moment.begin) - 1)
        for step in range(first, len(steps)):
            if moment.end <= borders[step]:
                break
            begin, end = max(moment.begin, borders[step]), min(moment.end, borders[step + 1])
            steps[step].append(_Span(begin, end, moment.op))
    return steps


def _mean(seconds: Sequence[float]) -> float:
    """Of an op's steps. One in which its thread was put aside tells nothing of the op."""
    longest = _LONGEST * statistics.median(seconds) or max(seconds)
    return sum(min(each, longest) for each in seconds) / len(seconds)


def _spans(plane: Any, line: Any) -> Iterator[_Span]:
    """Of one thread, outer ones before those inside them."""
    known = {n: _known(event.name) for n, event in plane.event_metadata.items()}
    start = line.timestamp_ns * 1000
    for event in sorted(line.events, key=lambda e: (e.offset_ps, -e.duration_ps)):
        is_told, op = known[event.metadata_id]
        if is_told:
            begin = start + event.offset_ps
            yield _Span(begin, begin + event.duration_ps, op or _asynchronous(plane, event))


def _known(name: str) -> tuple[bool, _Op | None]:
    """Whether an event counts, and its op where its name tells."""
    found = _OP.fullmatch(name)
    op = (_CALLED.sub("", found[1]), _kind(found[2])) if found else None
    return found is not None or name in (_RUNTIME, _ASYNCHRONOUS), op


def _asynchronous(plane: Any, event: Any) -> _Op | None:
    stats = {plane.stat_metadata[s.metadata_id].name: s for s in event.stats}
    if "name" not in stats or "kernel_type" not in stats:
        return None
    name, kind = (_text(plane, stats[key]) for key in ("name", "kernel_type"))
    return _CALLED.sub("", name), _kind(kind)


def _kind(told: str) -> str:
    """TensorFlow's word: ``_MklNativeFusedConv2D`` does the work of ``_FusedConv2D``."""
    return _ONEDNN.sub(lambda found: "_" if found[1] else "", told)


def _text(plane: Any, stat: Any) -> str:
    return str(stat.str_value or plane.stat_metadata[stat.ref_value].name)


def _innermost(spans: Sequence[_Span]) -> Iterator[_Span]:
    """What the thread was at, moment after moment."""
    running: list[_Span] = []
    at = 0
    for span in (*spans, None):
        while running and (span is None or running[-1].end <= span.begin):
            done = running.pop()
            if at < done.end:
                yield _Span(at, done.end, done.op)
            at = max(at, done.end)
        if span is not None:
            if running and at < span.begin:
                yield _Span(at, span.begin, running[-1].op)
            running.append(span)
            at = span.begin


def _with_runtime(moments: Sequence[_Span]) -> Iterator[_Span]:
    """Of one thread; what the runtime does counts for the op before."""
    before = next((moment.op for moment in moments if moment.op is not None), None)
    for moment in moments:
        before = moment.op or before
        yield moment._replace(op=before)


def _shared(moments: Sequence[_Span]) -> dict[_Op, float]:
    """Seconds of each op, where those that run at once share the time."""
    edges = [(m.begin, 1, m.op) for m in moments if m.op is not None and m.begin < m.end]
    edges += [(m.end, -1, m.op) for m in moments if m.op is not None and m.begin < m.end]
    seconds: dict[_Op, float] = {}
    running: Counter[_Op] = Counter()
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
