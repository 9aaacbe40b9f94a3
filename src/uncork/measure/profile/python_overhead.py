"""How long a step computes, and how long it is merely Python, seen from inside the interpreter.

The interpreter reports every call into C to a profile function. Time inside TensorFlow's two entry
points for executing an op or a function is computing; all else on the thread is Python. Sampling
would not do: a sampler gets the interpreter's lock just when TensorFlow has let it go.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from uncork.measure.benchmark.interleave import Block

# Both run ops; all other TFE_ functions keep the tape and the context.
_EXECUTE: Final = frozenset({"TFE_Py_Execute", "TFE_Py_FastPathExecute"})


class OpTime:
    """Seconds this thread spent executing TensorFlow ops, and how many calls that took."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.call_count = 0
        self._depth = 0
        self._entered = 0.0

    def __call__(self, frame: Any, event: str, arg: Any) -> None:
        """The profile function: keeps the time between outermost call and return."""
        del frame
        if event not in ("c_call", "c_return", "c_exception"):
            return
        if getattr(arg, "__name__", "") not in _EXECUTE:
            return
        if event == "c_call":
            self._depth += 1
            if self._depth == 1:
                self.call_count += 1
                self._entered = time.perf_counter()
        elif self._depth:
            self._depth -= 1
            if self._depth == 0:
                self.seconds += time.perf_counter() - self._entered


@contextmanager
def measure_op_time() -> Iterator[OpTime]:
    """Measure the ops executed inside the block, by this thread.

    Python itself runs several times slower meanwhile: take only the ops' time from it.
    """
    watch, before = OpTime(), sys.getprofile()
    sys.setprofile(watch)
    try:
        yield watch
    finally:
        sys.setprofile(before)


def python_s_per_step(resident_step_s: float, profiled_block: Block, ops_s: float) -> float | None:
    """Seconds of a step that pass outside TensorFlow's ops; None where no step was profiled.

    There are two ways to know: a step that nobody watched, less the ops, and the watched step, less
    the ops. The first compares blocks of different times, and on a noisy machine these differ by
    more than the Python of a long step. The second is Python slowed down by being watched, so it
    can only be too much. The lesser of both is taken.

    Args:
        resident_step_s: Of a step that nobody watched.
        profiled_block: The watched steps.
        ops_s: What they spent in ops.

    Example:
        >>> watched = Block(steps=2, samples=64, wall_s=0.21, cpu_s=0.2, warmup_s=0.0)
        >>> round(python_s_per_step(0.12, watched, ops_s=0.2), 3)
        0.005
    """
    most = profiled_python_s_per_step(profiled_block, ops_s)
    return (
        None
        if most is None
        else min(most, max(0.0, resident_step_s - ops_s / profiled_block.steps))
    )


def profiled_python_s_per_step(profiled_block: Block, ops_s: float) -> float | None:
    """Seconds of a watched step outside TensorFlow's ops: more than when nobody watches.

    None where no step was profiled.

    Args:
        profiled_block: The watched steps.
        ops_s: What they spent in ops.

    Example:
        >>> watched = Block(steps=2, samples=64, wall_s=0.21, cpu_s=0.2, warmup_s=0.0)
        >>> round(profiled_python_s_per_step(watched, ops_s=0.2), 3)
        0.005
    """
    if not profiled_block.steps:
        return None
    return max(0.0, profiled_block.wall_s - ops_s) / profiled_block.steps
