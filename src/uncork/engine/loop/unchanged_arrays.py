"""NumPy arguments of a step that stay the same: each call copies them into a tensor once more."""

from __future__ import annotations

import statistics
import time
from typing import Any, Final

import numpy as np
import tensorflow as tf

from uncork.capture.base.listener import StepCall
from uncork.core.evidence.stage import Stage, UnchangedArrays
from uncork.engine.loop.step_arguments import arguments_of
from uncork.training.loop_step.array_arguments import (
    TensorCache,
    is_large_array,
    large_array_arguments,
)

_SAMPLED: Final = 64
# Calls in which an array must stay the same; looking longer would cost every step some time.
_LOOKS: Final = 16
_COPIES: Final = 5


class UnchangedArrayTracker:
    """The large arrays of the first call, as long as every further call has the same.

    Args:
        call: The first one.
    """

    def __init__(self, call: StepCall) -> None:
        self._at = call.at
        large = {i: a for i, a in enumerate(arguments_of(call)) if is_large_array(a)}
        self._named = large_array_arguments(
            getattr(call.step, "python_function", None), call.args, call.kwargs
        )
        self._kept = {i: (array, _sample(array)) for i, array in large.items()}
        self._looks = 0

    def update(self, call: StepCall) -> None:
        """Forget what this call does not have, and what was filled with other numbers."""
        if not self._kept or self._looks >= _LOOKS:
            return
        self._looks += 1
        arguments = arguments_of(call)
        self._kept = {
            i: (array, sample)
            for i, (array, sample) in self._kept.items()
            if i < len(arguments) and arguments[i] is array and _equal(sample, _sample(array))
        }

    def stages(self) -> tuple[Stage, ...]:
        """What copying them costs a step, timed now; nothing where there are none."""
        if not self._kept:
            return ()
        arrays = [array for array, _ in self._kept.values()]
        clocks = [_copy_s(arrays) for _ in range(_COPIES)]
        wall_s, cpu_s = (statistics.median(found) for found in zip(*clocks, strict=True))
        return (
            Stage(
                index=1,
                kind="convert",
                at=self._at,
                cpu_s_per_element=cpu_s,
                wall_s_per_element=wall_s,
                bytes_per_element=sum(array.nbytes for array in arrays),
                elements_per_step=1.0,
                parallelism=1,
                unchanged_arrays=self._same(arrays),
            ),
        )

    def _same(self, arrays: list[Any]) -> UnchangedArrays:
        named = {
            name: array
            for name, array in self._named.items()
            if any(array is each for each in arrays)
        }
        kept = TensorCache()

        def compare_s() -> float:
            begin = time.perf_counter()
            for name, array in named.items():
                kept.tensor_of(name, array)
            return time.perf_counter() - begin

        compare_s()
        return UnchangedArrays(
            argument_names=tuple(named),
            copy_s=statistics.median(_copy_s(list(named.values()))[0] for _ in range(_COPIES)),
            compare_s=statistics.median(compare_s() for _ in range(_COPIES)),
        )


def _sample(array: Any) -> Any:
    """Some numbers from all over it, copied."""
    return array.flat[:: max(1, array.size // _SAMPLED)].copy()


def _equal(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))


def _copy_s(arrays: list[Any]) -> tuple[float, float]:
    begin, cpu = time.perf_counter(), time.process_time()
    for array in arrays:
        tf.constant(array)
    return time.perf_counter() - begin, time.process_time() - cpu
