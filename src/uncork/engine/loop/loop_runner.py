"""Runs versions of a custom loop: the user's code drives, on batches that we choose."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from uncork.engine.loop.loop_driver import LoopDriver
from uncork.measure.benchmark.interleave import Block
from uncork.measure.benchmark.quiesce import wait_until_idle
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.runtime.cache_fill import fill_caches
from uncork.pipeline.transforms.disk_cache import drop_cache_files_from_memory
from uncork.training.variant import VariantRunner

# Epochs up to so long are timed whole where the loop leaves its data early.
_LEFT_EARLY_S: Final = 4.0
# Steps that tell how long an epoch is.
_TELLING: Final = 8


class LoopRunner(VariantRunner):
    """Lets the loop run on some batches.

    Where epochs are shorter than a block, whole ones are timed, as in a ``fit``; so are longer ones
    of a loop that leaves its data before the end, as what was made ahead in vain belongs to them.
    Whether epochs are short is seen once, and holds for all runners: blocks that are to be compared
    are of one kind.

    Args:
        driver: The loop's other end.
        epoch: Makes an iterator over one epoch of batches.
        pipeline: Where they come from, None for a resident batch.
        switch: Called before each block, to set up the loop's step.
        check: Called after the first steps; raises where the step cannot be run so.
    """

    def __init__(
        self,
        driver: LoopDriver,
        epoch: Callable[[], Iterator[Any]],
        pipeline: Pipeline | None,
        switch: Callable[[], None] = lambda: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._board = driver
        self._epoch = epoch
        self._pipeline = pipeline
        self._switch = switch
        self._check = check

    def prime(self) -> float:
        """Fill caches and let the loop run its first steps; seconds it took."""
        begin = time.perf_counter()
        if self._pipeline is not None:
            fill_caches(self._pipeline)
        self._run(self._unknown_s(), whole=False)
        self._check()
        return time.perf_counter() - begin

    def first_epoch(self, limit_s: float) -> float | None:
        """None: the loop's own epochs are not ours to count."""
        del limit_s
        return None

    def block(self, seconds: float) -> Block:
        """Let the loop run for about so long."""
        longest_s = max(seconds, _LEFT_EARLY_S) if self._left_early() else seconds
        return self._run(seconds, whole=self._board.epoch_s <= longest_s)

    def _left_early(self) -> bool:
        if self._pipeline is None or not self._board.steps_before_exit:
            return False
        length = batch_count_of(self._pipeline)
        return length is None or self._board.steps_before_exit < length

    def _unknown_s(self) -> float:
        """How long to wait, once, for the loop to leave data that has no end."""
        pipeline, board = self._pipeline, self._board
        unknown = pipeline is not None and steps_per_epoch_of(pipeline, board) is None
        return board.observation_s() if unknown else 0.0

    def _run(self, seconds: float, *, whole: bool) -> Block:
        drop_cache_files_from_memory(self._pipeline)
        self._switch()  # the loop waits for a batch: none of its steps is running
        wait_until_idle()
        if self._pipeline is None:
            return self._board.block(self._epoch, seconds)[0]
        found, _ = self._board.block(self._epoch, seconds, whole_epochs=whole, restart_epoch=True)
        steps = steps_per_epoch_of(self._pipeline, self._board)
        if steps and math.isinf(self._board.epoch_s) and found.steps >= min(steps, _TELLING):
            self._board.epoch_s = steps * found.wall_s / found.steps
        return found


class ResidentLoopRunner(LoopRunner):
    """Lets the loop run on batches from memory.

    Args:
        driver: The loop's other end.
        batches: From memory.
        switch: As of :class:`LoopRunner`.
        check: Likewise.
        transform: What is done to each on its way to the loop.
    """

    def __init__(
        self,
        driver: LoopDriver,
        batches: Sequence[Any],
        switch: Callable[[], None],
        check: Callable[[], None] = lambda: None,
        transform: Callable[[Any], Any] = lambda batch: batch,
    ) -> None:
        super().__init__(
            driver, lambda: map(transform, itertools.cycle(batches)), None, switch, check
        )
        self._batches = batches
        self._made = transform

    def prime(self) -> float:
        """Let the loop run a step on each of them: one may be compiled for its shape."""
        begin = time.perf_counter()
        self._switch()
        first = [*self._batches, *self._batches[:1]]
        self._board.block(lambda: map(self._made, first), 0.0, whole_epochs=True)
        self._check()
        return time.perf_counter() - begin


def steps_per_epoch_of(pipeline: Pipeline, driver: LoopDriver) -> int | None:
    """How many batches a pass over the data takes, or the loop before it is left."""
    known = [n for n in (batch_count_of(pipeline), driver.steps_before_exit) if n]
    return min(known, default=None)


def batch_count_of(pipeline: Pipeline) -> int | None:
    """Batches of a pass over the data; None where that is not known, or there is no end."""
    return pipeline.cardinality if pipeline.cardinality >= 0 else None
