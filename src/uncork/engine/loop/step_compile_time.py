"""What the step of a loop is called with: its shapes, and what XLA takes to compile for one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

from uncork.compat.random_state import random_state, set_random_state
from uncork.compat.tf.eager_context import async_wait
from uncork.core.base.record import replace
from uncork.core.evidence.batches import VaryingShapes
from uncork.pipeline.ir.tree import Pipeline
from uncork.training.loop_step.compiled_step import CompiledStep
from uncork.training.loop_step.loop_step import CallArguments
from uncork.training.transforms.batch_shapes import BatchShapes, summarize_shapes
from uncork.training.transforms.pad_lengths import find_padding_values
from uncork.training.transforms.padded_arguments import describe_call_form, read_argument_shapes
from uncork.verify.provers.recorded_calls import state_of_calls

# Batches whose shapes are looked at, and how long they are read.
_MOST: Final = 1024
_READ_S: Final = 2.0


def varying_shapes_of_loop(
    calls: Sequence[CallArguments],
    batches: Sequence[Any],
    pipeline: Pipeline,
    seconds: tuple[float, float],
) -> VaryingShapes:
    """Shapes that the step is called with over the data, as far as it is handed parts of batches.

    Args:
        calls: Of the step, on these batches.
        batches: From memory.
        pipeline: That more of them are read from.
        seconds: To trace the step for a shape, and to compile it: :func:`measure_shape_s`.
    """
    leaves = [tf.nest.flatten(call) for call in calls]
    seen = [read_argument_shapes(each) for each in leaves]
    form, *others = {describe_call_form(*call) for call in calls}
    if others:
        return _with_seconds(seen, seconds, ())
    parts = _parts(leaves, batches)
    fixed = all(len({shapes[n] for shapes in seen}) == 1 for n, m in enumerate(parts) if m is None)
    if not fixed:  # the loop makes something of its batches first
        return _with_seconds(seen, seconds, ())
    fills = find_padding_values(pipeline)
    filled = [0.0 if m is None else fills[m] for m in parts] if fills else []
    known = [
        tuple(seen[0][n] if m is None else shapes[m] for n, m in enumerate(parts))
        for shapes in _shapes_of_batches(pipeline.dataset)
    ]
    found = _with_seconds(max(seen, known, key=len), seconds, filled)
    return replace(found, call_signature=form)


def _with_seconds(
    known: Sequence[BatchShapes], seconds: tuple[float, float], fills: Sequence[float]
) -> VaryingShapes:
    trace_s, compile_s = seconds
    return replace(summarize_shapes(known, compile_s, fills), trace_s_per_shape=trace_s)


def measure_shape_s(step: CompiledStep, seconds: float) -> tuple[float, float] | None:
    """To trace the step for one more shape, and to compile it; its variables are given back.

    Args:
        step: Calls of it were recorded; on the thread that calls it.
        seconds: How long to look; one shape beside the first is compiled in any case.

    Returns:
        None where all of these calls have one shape.
    """
    firsts = {
        read_argument_shapes(tf.nest.flatten(call)): call for call in reversed(step.recorded_calls)
    }
    calls = list(reversed(firsts.values()))
    if len(calls) < 2:
        return None
    state, random = state_of_calls(step, calls), random_state()
    fresh, until = step.untraced_copy(), time.monotonic() + seconds
    traced, compiled = list[float](), list[float]()
    try:
        for number, (args, kwargs) in enumerate(calls):
            start = time.perf_counter()
            fresh.get_concrete_function(*args, **kwargs)
            trace_s = time.perf_counter() - start
            first_s, again_s = (_seconds(fresh, (args, kwargs)) for _ in range(2))
            if number:  # before, what is made once for all shapes
                traced.append(trace_s)
                compiled.append(max(0.0, first_s - again_s))
            if traced and time.monotonic() > until:
                break
    finally:
        state.restore()
        set_random_state(random)
    return statistics.fmean(traced), statistics.fmean(compiled)


def _seconds(function: Any, call: CallArguments) -> float:
    start = time.perf_counter()
    args, kwargs = call
    for each in tf.nest.flatten(function(*args, **kwargs), expand_composites=True):
        if isinstance(each, tf.Tensor) and each.dtype not in (tf.resource, tf.variant):
            each.numpy()  # it may still be computed on a device
    async_wait()
    return time.perf_counter() - start


def _parts(leaves: Sequence[Sequence[Any]], batches: Sequence[Any]) -> list[int | None]:
    """For each argument which part of a batch it is; None of what is none in some call."""
    places = {id(p): m for batch in batches for m, p in enumerate(tf.nest.flatten(batch))}
    found = [{places.get(id(leaf)) for leaf in same} for same in zip(*leaves, strict=True)]
    return [each.pop() if len(each) == 1 else None for each in found]


def _shapes_of_batches(dataset: Any) -> list[BatchShapes]:
    """Of the first ones, over several passes where these are short."""
    found: list[BatchShapes] = []
    until, before = time.monotonic() + _READ_S, -1
    while before < len(found):
        before = len(found)
        for batch in dataset:
            found.append(read_argument_shapes(tf.nest.flatten(batch)))
            if time.monotonic() > until or len(found) >= _MOST:
                return found
    return found
