"""Feeds a user's own training loop from whatever version is under trial.

The loop runs on the user's thread and asks for one batch after the other. The engine runs on a
thread of its own and asks for blocks of steps. They meet here, and only one of them runs at a time.
"""

from __future__ import annotations

import math
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from uncork.compat.tf.eager_context import async_wait
from uncork.compat.tf.functions import total_tracing_s
from uncork.core.base.errors import NothingToMeasure, UncorkError
from uncork.measure.benchmark.async_backlog import AsyncBacklog
from uncork.measure.benchmark.interleave import Block
from uncork.measure.benchmark.page_faults import page_fault_s_since, take_memory_snapshot
from uncork.measure.benchmark.step_trace import StepMarks
from uncork.measure.benchmark.timed_block import MIN_WARMUP_EXECUTIONS, WARMUP_SHARE
from uncork.measure.profile.line_profiler import LineTimes
from uncork.measure.profile.python_overhead import OpTime
from uncork.pycode.frames.stack import user_frame

# Seconds.
_LOOK_S: Final = 2.0


class _Request:
    """One block that the engine wants: where its batches come from, and its clock.

    Args:
        epoch: Makes an iterator over one epoch of batches.
        seconds: How long to time.
        whole: Time whole epochs, their starts and ends included, without a warm-up.
        profiled: Also measure the time spent inside TensorFlow's ops.
        anew: Begin another epoch when the loop is left and entered again, as the user's own would.
        lines: Told the loop's frame while the clock runs.
    """

    def __init__(
        self,
        epoch: Callable[[], Iterator[Any]],
        seconds: float,
        *,
        whole: bool,
        profiled: bool,
        anew: bool,
        lines: LineTimes | None,
    ) -> None:
        self.seconds = seconds
        self.lines = lines
        self.ops = OpTime() if profiled else None
        self._epoch = epoch
        self._whole = whole
        self._anew = anew
        self._batches: Iterator[Any] | None = None if whole else epoch()
        self._given = 0
        self._begin = time.perf_counter()
        self._last = self._clocks()
        self._warm: tuple[int, float, float] | None = None
        self._traced_s = 0.0
        self._held = take_memory_snapshot()
        self._backlog = AsyncBacklog()
        self._marks = StepMarks()

    def next_batch(self) -> Any:
        """The next batch, from a new epoch where one ends; None when that was the last one."""
        self._marks.start_step()
        if self._whole and self._warm is None:
            self._begin = time.perf_counter()
            self._warm = (0, self._begin, time.process_time())
            self._traced_s, self._held = total_tracing_s(), take_memory_snapshot()
        batch = None if self._batches is None else next(self._batches, None)
        if batch is None:
            self._batches = None  # what ending it costs is part of the epoch
            if self._whole and self._given and self._timed_s() >= self.seconds:
                return None
            self._batches = self._epoch()
            batch = next(self._batches, None)
        if batch is None:
            raise NothingToMeasure("the dataset is empty", "at least one batch", "check it")
        self._given += 1
        self._last = self._clocks()
        return batch

    def arrived(self, samples_per_step: float) -> Block | None:
        """The loop came back for more: a block when this one has lasted long enough."""
        if self._backlog.can_start_next(self._given):
            return None
        if self._warm is None:
            self._warm_up()
            return None
        timed, left_s = self._given - self._warm[0], self.seconds - self._timed_s()
        if self._whole or timed == 0 or left_s > 0:
            # Whole epochs are not cut short, so the steps of one need not be waited for.
            left_s = math.inf if self._whole else left_s
            self._backlog.set_limit(self._given, timed, self._timed_s(), left_s)
            return None
        return self.finished(samples_per_step)

    def _warm_up(self) -> None:
        passed_s = time.perf_counter() - self._begin
        left_s = WARMUP_SHARE * self.seconds - passed_s
        if self._given < MIN_WARMUP_EXECUTIONS or left_s > 0:
            self._backlog.set_limit(self._given, self._given, passed_s, left_s)
            return
        async_wait()
        self._warm = (self._given, time.perf_counter(), time.process_time())
        self._traced_s, self._held = total_tracing_s(), take_memory_snapshot()

    def finished(self, samples_per_step: float) -> Block:
        """What was timed since the warm-up."""
        assert self._warm is not None
        given, begin, cpu = self._warm
        async_wait()
        self._marks.end_step()
        wall_s, cpu_s = time.perf_counter() - begin, time.process_time() - cpu
        steps = self._given - given
        return Block(
            steps=steps,
            samples=steps * samples_per_step,
            wall_s=wall_s,
            cpu_s=cpu_s,
            warmup_s=begin - self._begin,
            tracing_s=total_tracing_s() - self._traced_s,
            page_fault_s=page_fault_s_since(self._held),
        )

    def _timed_s(self) -> float:
        return time.perf_counter() - self._warm[1] if self._warm else 0.0

    @property
    def warm(self) -> bool:
        """The clock runs."""
        return self._warm is not None

    def left(self) -> None:
        """The loop was left and entered again: neither its last step nor the time since counts."""
        self._leave_out_pause()
        if self._anew:
            self._batches = None  # what ending this epoch costs counts, and what starting one does

    def _leave_out_pause(self) -> None:
        last_s, last_cpu_s, last_ops_s = self._last
        pause_s, pause_cpu_s = time.perf_counter() - last_s, time.process_time() - last_cpu_s
        self._given -= 1
        self._begin += pause_s
        if self._warm is not None:
            given, begin, begin_cpu = self._warm
            # A pause right after the warm-up takes back a step from before it.
            self._warm = (min(given, self._given), begin + pause_s, begin_cpu + pause_cpu_s)
        if self.ops is not None:
            self.ops.seconds = last_ops_s

    def _clocks(self) -> tuple[float, float, float]:
        ops_s = self.ops.seconds if self.ops is not None else 0.0
        return time.perf_counter(), time.process_time(), ops_s


class LoopDriver(Iterator[Any]):
    """The iterator that the user's loop reads, and the other end of the engine's requests.

    Args:
        samples_per_step: Samples of one batch.
        set_profile: Sets the thread's profile function, None to clear it.
        batches_read: Batches that the loop took from its own data before it was recognised.

    Attributes:
        batches_served: Batches that the loop was given in all.
        steps_before_exit: Batches that the loop took before it was left, when that was seen.
        epoch_s: Seconds of an epoch, as first timed; infinite as long as that is not known.
    """

    def __init__(
        self, samples_per_step: float, set_profile: Callable[[Any], None], batches_read: int = 0
    ) -> None:
        self._samples = samples_per_step
        self._profile = set_profile
        self._requests: queue.Queue[_Request | BaseException] = queue.Queue()
        self._answers: queue.Queue[Block | BaseException] = queue.Queue()
        self._current: _Request | None = None
        self._over: BaseException | None = None
        self._taken = batches_read
        self.batches_served = 0
        self.steps_before_exit: int | None = None
        self.epoch_s = math.inf
        self._look_s = _LOOK_S

    def block(
        self,
        epoch: Callable[[], Iterator[Any]],
        seconds: float,
        *,
        whole_epochs: bool = False,
        profile_ops: bool = False,
        restart_epoch: bool = False,
        line_times: LineTimes | None = None,
    ) -> tuple[Block, OpTime | None]:
        """Engine side: let the loop run a block and wait for it.

        Args:
            epoch: Makes an iterator over one epoch of batches.
            seconds: How long to time.
            whole_epochs: Time whole epochs, their starts and ends included.
            profile_ops: Also measure the time spent inside TensorFlow's ops; slows Python down.
            restart_epoch: Begin another epoch when the loop is left and entered again.
            line_times: Measures the lines of the loop meanwhile; slows Python down.
        """
        how = {"whole": whole_epochs, "profiled": profile_ops, "anew": restart_epoch}
        request = _Request(epoch, seconds, lines=line_times, **how)
        self._requests.put(request)
        answer = self._answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer, request.ops

    def observation_s(self) -> float:
        """How long to watch whether the loop leaves its data: some seconds, and then none."""
        look_s, self._look_s = self._look_s, 0.0
        return look_s

    def finish(self, ending: BaseException) -> None:
        """Engine side: no more blocks; the loop gets this exception at its next batch."""
        self._requests.put(ending)

    def abandon(self, error: BaseException) -> None:
        """User's side: the loop will not come back; wake the engine with this."""
        if self._current is not None and self._current.lines is not None:
            self._current.lines.stop()
        self._answers.put(error)

    def resume(self, batches_read: int = 0) -> None:
        """User's side: the loop was left, by a ``break`` or an error, and begins anew.

        Args:
            batches_read: Batches that it took from its own data since.
        """
        self.steps_before_exit, self._taken = self._taken, batches_read
        if self._current is not None:
            self._current.left()

    def __next__(self) -> Any:
        """User's side: one batch of the version under trial."""
        batch = self._next()
        self._taken += 1
        self.batches_served += 1
        return batch

    def _next(self) -> Any:
        if self._current is not None:
            self._advance(self._current)
        while self._current is None:
            if self._over is not None:  # and the script has caught that
                raise _over(self._over)
            request = self._requests.get()
            if isinstance(request, BaseException):
                self._over = request
                raise request
            self._current = request
        try:
            batch = self._current.next_batch()
        except Exception as error:  # reading the data failed: the engine must know why
            return self._answered(error)
        return self._answered(self._current.finished(self._samples)) if batch is None else batch

    def _answered(self, answer: Block | BaseException) -> Any:
        """The request is done; a batch of the next one."""
        if self._current is not None and self._current.lines is not None:
            self._current.lines.stop()
        self._current = None
        self._answers.put(answer)
        return self._next()

    def _advance(self, request: _Request) -> None:
        was_warm = request.warm
        block = request.arrived(self._samples)
        if request.ops is not None and request.warm and not was_warm:
            self._profile(request.ops)
        if request.lines is not None and request.warm and not was_warm:
            frame = user_frame(sys._getframe())
            if frame is not None:
                request.lines.start(frame)
        if block is not None:
            self._profile(None)
            if request.lines is not None:
                request.lines.stop()
            self._current = None
            self._answers.put(block)


def _over(ending: BaseException) -> BaseException:
    """What ends a script that has caught the first ending, and asks for more."""
    if not isinstance(ending, Exception) or isinstance(ending, UncorkError):
        return ending
    return NothingToMeasure(
        f"an error ended the measurement of the loop: {type(ending).__name__}: {ending}",
        "data that can be read without an error",
        "skip elements that cannot be read: dataset.ignore_errors()",
    )


def run_engine_thread(
    work: Callable[[], None], driver: LoopDriver, ending: BaseException
) -> LoopDriver:
    """Start the engine's work on its own thread; the loop ends when the work does.

    Args:
        work: Measures, through ``driver``; its exceptions end the loop in place of ``ending``.
        driver: Handed to the user's loop.
        ending: Raised in the loop when the work is done.
    """

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # carried over to the user's thread
            driver.finish(error)
        else:
            driver.finish(ending)

    threading.Thread(target=guarded, name="uncork-engine", daemon=True).start()
    return driver
