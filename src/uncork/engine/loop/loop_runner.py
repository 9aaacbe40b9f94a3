"""Runs versions of a custom loop: the user's code drives, on batches that we choose."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from uncork.engine.loop.loop_driver import Switchboard
from uncork.measure.benchmark.interleave import Block
from uncork.measure.benchmark.quiesce import settle
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.runtime.cache_fill import fill_caches
from uncork.pipeline.transforms.disk_cache import from_disk
from uncork.training.variant import VersionRunner

# Epochs up to so long are timed whole where the loop leaves its data early.
_LEFT_EARLY_S: Final = 4.0
# Steps that tell how long an epoch is.
_TELLING: Final = 8


class LoopRunner(VersionRunner):
    """Lets the loop run on some batches.

    Where epochs are shorter than a block, whole ones are timed, as in a ``fit``; so are longer ones
    of a loop that leaves its data before the end, as what was made ahead in vain belongs to them.
    Whether epochs are short is seen once, and holds for all runners: blocks that are to be compared
    are of one kind.

    Args:
        board: The loop's other end.
        epoch: Makes an iterator over one epoch of batches.
        pipeline: Where they come from, None for a resident batch.
        switch: Called before each block, to set up the loop's step.
        check: Called after the first steps; raises where the step cannot be run so.
    """

    def __init__(
        self,
        board: Switchboard,
        epoch: Callable[[], Iterator[Any]],
        pipeline: Pipeline | None,
        switch: Callable[[], None] = lambda: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._board = board
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
        if self._pipeline is None or not self._board.steps_before_left:
            return False
        length = length_of(self._pipeline)
        return length is None or self._board.steps_before_left < length

    def _unknown_s(self) -> float:
        """How long to wait, once, for the loop to leave data that has no end."""
        pipeline, board = self._pipeline, self._board
        unknown = pipeline is not None and steps_of_epoch(pipeline, board) is None
        return board.seconds_to_look() if unknown else 0.0

    def _run(self, seconds: float, *, whole: bool) -> Block:
        from_disk(self._pipeline)
        self._switch()  # the loop waits for a batch: none of its steps is running
        settle()
        if self._pipeline is None:
            return self._board.block(self._epoch, seconds)[0]
        found, _ = self._board.block(self._epoch, seconds, whole=whole, anew=True)
        steps = steps_of_epoch(self._pipeline, self._board)
        if steps and math.isinf(self._board.epoch_s) and found.steps >= min(steps, _TELLING):
            self._board.epoch_s = steps * found.wall_s / found.steps
        return found


class ResidentRunner(LoopRunner):
    """Lets the loop run on batches from memory.

    Args:
        board: The loop's other end.
        batches: From memory.
        switch: As of :class:`LoopRunner`.
        check: Likewise.
        made: What is done to each on its way to the loop.
    """

    def __init__(
        self,
        board: Switchboard,
        batches: Sequence[Any],
        switch: Callable[[], None],
        check: Callable[[], None] = lambda: None,
        made: Callable[[Any], Any] = lambda batch: batch,
    ) -> None:
        super().__init__(board, lambda: map(made, itertools.cycle(batches)), None, switch, check)
        self._batches = batches
        self._made = made

    def prime(self) -> float:
        """Let the loop run a step on each of them: one may be compiled for its shape."""
        begin = time.perf_counter()
        self._switch()
        first = [*self._batches, *self._batches[:1]]
        self._board.block(lambda: map(self._made, first), 0.0, whole=True)
        self._check()
        return time.perf_counter() - begin


def steps_of_epoch(pipeline: Pipeline, board: Switchboard) -> int | None:
    """How many batches a pass over the data takes, or the loop before it is left."""
    known = [n for n in (length_of(pipeline), board.steps_before_left) if n]
    return min(known, default=None)


def length_of(pipeline: Pipeline) -> int | None:
    """Batches of a pass over the data; None where that is not known, or there is no end."""
    return pipeline.cardinality if pipeline.cardinality >= 0 else None
