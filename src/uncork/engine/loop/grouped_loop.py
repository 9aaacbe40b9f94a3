"""The compiled step of a loop of the user's own, many times in one function.

What is gone then is Python between the steps, and what TensorFlow takes to start a function.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import tensorflow as tf

from uncork.compat.tf.eager_context import async_wait
from uncork.measure.benchmark.interleave import Block
from uncork.measure.benchmark.timed_block import time_block
from uncork.training.variant import VariantRunner

# Seconds. Of longer steps what is between them is too little to be told from noise so.
MAX_STEP_S: Final = 0.005
_GROUP: Final = 16
_FEW: Final = 3


def create_grouped_runner(step: Callable[[], Any], samples: float) -> VariantRunner | None:
    """The runner, primed; None where the step cannot be part of another function.

    Args:
        step: Calls it; its run is thrown away, so what it changes does not matter.
        samples: Of one step.
    """
    with suppress(Exception):
        runner = GroupedLoopRunner(step, samples)
        runner.prime()
        return runner
    return None


def measure_call_s(step: Callable[[], Any], budget_s: float) -> float | None:
    """Of a step called over and over with the same arguments: traced once, and never again.

    Args:
        step: Calls it; its run is thrown away.
        budget_s: How long to look.
    """
    with suppress(Exception):
        step()
        times: list[float] = []
        end = time.perf_counter() + budget_s
        while len(times) < _FEW or time.perf_counter() < end:
            began = time.perf_counter()
            step()
            async_wait()
            times.append(time.perf_counter() - began)
        return statistics.median(times)
    return None


class GroupedLoopRunner(VariantRunner):
    """Runs groups of steps, on the arguments of one of them.

    Args:
        step: Calls the step.
        samples: Of one step.
    """

    def __init__(self, step: Callable[[], Any], samples: float) -> None:
        self._step = step
        self._samples = samples
        self._group = tf.function(self._many, autograph=False)

    def prime(self) -> float:
        """Trace and compile; seconds it took."""
        begin = time.perf_counter()
        self._group()
        return time.perf_counter() - begin

    def first_epoch(self, limit_s: float) -> float | None:
        """None: it has no epochs."""
        del limit_s
        return None

    def block(self, seconds: float) -> Block:
        """Time groups for about ``seconds``."""
        return time_block(self._executions(), seconds, self._samples)

    def _many(self) -> None:
        for _ in range(_GROUP):
            self._step()

    def _executions(self) -> Iterator[int]:
        while True:
            self._group()
            yield _GROUP
