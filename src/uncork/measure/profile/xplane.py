"""What TensorFlow's profiler wrote down: which op a thread, or a stream of a GPU, was at, and when.

On a host, every execution of a kernel is an event named ``scope/of/the/op:Kind``. On a GPU, events
are named after CUDA's kernels, and say of which op they are. What XLA compiled says, on either, of
which instruction it is, and the program that comes with the trace, which op that was made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from uncork.compat.tf.protos import HloProto

Op = tuple[str, str]
_Programs = Mapping[int, Mapping[str, Op]]

_OP: Final = re.compile(r"([^\s:]+):([A-Za-z_]\w*)")
# Functions are inlined before they run: what stands before their ops' own names.
_CALLED: Final = re.compile(r".*(?:^|/)(?:Stateful)?PartitionedCall(?:_\d+)?/")
_CALL: Final = "PartitionedCall"
# What the runtime does between the kernels, and how it tells those that may return before they end.
_RUNTIME: Final = "ExecutorState::Process"
_ASYNCHRONOUS: Final = "ExecutorState::ProcessAsync::Start"
# oneDNN's kernels, on processors where TensorFlow lets them stand in for its own ones.
_ONEDNN: Final = re.compile(r"^_Mkl(?:Native)?(?!ToTf)(?=(Fused)?)")
# A thread of the runtime's gives a program of XLA's to others, and waits for them.
_WAITS: Final = "CpuExecutable::ExecuteAsyncOnStream"
WAITING_OP: Final[Op] = ("", "")
_GRADIENT: Final = "gradient_tape/"
_HOST: Final = "/host:CPU"
_GPU: Final = "/device:GPU:"
_PROGRAMS: Final = "/host:metadata"
# Of a GPU's plane; others are made of these.
_STREAM: Final = "Stream #"
# Between the host's memory and a GPU's: no kernel.
_COPIES: Final = ("MemcpyH2D", "MemcpyD2H")
# Picoseconds that a GPU may wait for the next kernel because it takes that long to be started.
_STARTING: Final = 20 * 10**6


class Span(NamedTuple):
    """Of one thread, in picoseconds; without an op, the runtime itself is at work, or waits."""

    begin: int
    end: int
    op: Op | None


def host_threads(space: Any) -> list[list[Span]]:
    """Each thread of the host, outer spans before those inside them.

    Args:
        space: An ``XSpace``.
    """
    programs = _programs(space)
    lines = [(plane, line) for plane in space.planes if plane.name == _HOST for line in plane.lines]
    return [list(_of_thread(plane, line, programs)) for plane, line in lines]


def gpu_streams(space: Any) -> list[list[Span]]:
    """Each stream of the first GPU that did anything; none where no GPU is told of.

    A kernel counts until the next one, if that is soon: a step of many small ones waits for each to
    be started.

    Args:
        space: An ``XSpace``.
    """
    programs = _programs(space)
    for plane in sorted(space.planes, key=lambda plane: str(plane.name)):
        lines = [line for line in plane.lines if line.name.startswith(_STREAM)]
        if plane.name.startswith(_GPU) and lines:
            streams = [list(_of_stream(plane, line, programs)) for line in lines]
            return [list(_until_the_next(stream)) for stream in streams]
    return []


def _of_thread(plane: Any, line: Any, programs: _Programs) -> Iterator[Span]:
    known = {n: _known(event.name) for n, event in plane.event_metadata.items()}
    for event, begin, end in _events(line):
        is_told, op = known[event.metadata_id]
        if is_told:
            yield Span(begin, end, op or _asynchronous(plane, event))
        elif programs and (op := _of_program(_stats(plane, event), programs)):
            yield Span(begin, end, op)


def _of_stream(plane: Any, line: Any, programs: _Programs) -> Iterator[Span]:
    for event, begin, end in _events(line):
        op = _of_kernel(_stats(plane, event), programs)
        if op is not None and not plane.event_metadata[event.metadata_id].name.startswith(_COPIES):
            yield Span(begin, end, op)


def _events(line: Any) -> Iterator[tuple[Any, int, int]]:
    start = line.timestamp_ns * 1000
    for event in sorted(line.events, key=lambda e: (e.offset_ps, -e.duration_ps)):
        begin = start + event.offset_ps
        yield event, begin, begin + event.duration_ps


def _known(name: str) -> tuple[bool, Op | None]:
    """Whether an event counts, and its op where its name tells."""
    op = WAITING_OP if name == _WAITS else _op(name)
    return op is not None or name in (_RUNTIME, _ASYNCHRONOUS), op


def _op(told: str) -> Op | None:
    found = _OP.fullmatch(told)
    return (_CALLED.sub("", found[1]), _kind(found[2])) if found else None


def _asynchronous(plane: Any, event: Any) -> Op | None:
    told = _stats(plane, event)
    if "name" not in told or "kernel_type" not in told:
        return None
    return _CALLED.sub("", str(told["name"])), _kind(str(told["kernel_type"]))


def _kind(told: str) -> str:
    """TensorFlow's word: ``_MklNativeFusedConv2D`` does the work of ``_FusedConv2D``."""
    return _ONEDNN.sub(lambda found: "_" if found[1] else "", told)


def _of_kernel(told: Mapping[str, Any], programs: _Programs) -> Op | None:
    op = _of_program(told, programs) or _op(str(told.get("tf_op", "")))
    # What belongs to a program of XLA's as a whole: its copies of what it is given.
    return None if op is None or op[1].endswith(_CALL) else op


def _of_program(told: Mapping[str, Any], programs: _Programs) -> Op | None:
    if "hlo_op" not in told:
        return None
    made_of = programs.get(int(told.get("program_id", 0)), {})
    return made_of.get(str(told["hlo_op"]), (str(told["hlo_op"]), "XLA"))


def _programs(space: Any) -> _Programs:
    """By number: of which op each instruction of a program of XLA's was made."""
    return {
        number: dict(_instructions(stat.bytes_value))
        for plane in space.planes
        if plane.name == _PROGRAMS
        for number, program in plane.event_metadata.items()
        for stat in program.stats
        if stat.bytes_value
    }


def _instructions(program: bytes) -> Iterator[tuple[str, Op]]:
    """Of which op each instruction was made, as far as the program tells.

    A fusion that says nothing of itself is told by what it ends with. Of another one, a transposed
    copy or a rewritten convolution, the neighbours tell: a gradient that it is given, else what it
    is given to.
    """
    module = HloProto.FromString(program).hlo_module
    inside = {each.id: each.instructions for each in module.computations}
    for computation in module.computations:
        own: dict[int, Op] = {}
        for each in computation.instructions:  # what is computed first stands first
            called = (part for n in each.called_computation_ids for part in reversed(inside[n]))
            op = next(filter(None, map(_made_of, (each, *called))), None)
            op = op or next((own[n] for n in each.operand_ids if _is_gradient(own.get(n))), None)
            if op is not None:
                own[each.id] = op
        for each in reversed(computation.instructions):
            if each.id in own:
                yield each.name, own[each.id]
                own |= {n: own[each.id] for n in each.operand_ids if n not in own}


def _made_of(instruction: Any) -> Op | None:
    told = instruction.metadata
    return (_CALLED.sub("", told.op_name), told.op_type) if told.op_type else None


def _is_gradient(op: Op | None) -> bool:
    return op is not None and op[0].startswith(_GRADIENT)


def _stats(plane: Any, event: Any) -> dict[str, Any]:
    return {plane.stat_metadata[s.metadata_id].name: _value(plane, s) for s in event.stats}


def _value(plane: Any, stat: Any) -> Any:
    kind = stat.WhichOneof("value")
    return plane.stat_metadata[stat.ref_value].name if kind == "ref_value" else getattr(stat, kind)


def _until_the_next(spans: Sequence[Span]) -> Iterator[Span]:
    for span, following in zip_longest(spans, spans[1:]):
        if following is None or following.begin - span.end > _STARTING:
            yield span
        else:
            yield span._replace(end=max(span.end, following.begin))
