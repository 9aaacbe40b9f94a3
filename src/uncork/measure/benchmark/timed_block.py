"""The clock of a block, and what measuring costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from uncork.compat.tf.eager_context import async_wait
from uncork.compat.tf.functions import total_tracing_s
from uncork.measure.benchmark.interleave import Block
from uncork.measure.benchmark.page_faults import page_fault_s_since, take_memory_snapshot
from uncork.measure.benchmark.step_trace import mark_steps

_ROUNDS: Final = 20_000


def timing_overhead_s() -> float:
    """Seconds that one timed step spends in our own loop: a generator's turn and a clock reading.

    Example:
        >>> 0 < timing_overhead_s() < 1e-3
        True
    """
    begin = time.perf_counter()
    for _ in _turns(_ROUNDS):
        time.perf_counter()
    return (time.perf_counter() - begin) / _ROUNDS


def _turns(count: int) -> Iterator[int]:
    yield from range(count)


# Executions before the clock starts: a new iterator's threads and buffers need some, for a part of
# the block's length, but a block of very short executions need not wait for hundreds of them.
MIN_WARMUP_EXECUTIONS: Final = 2
WARMUP_SHARE: Final = 0.25
MAX_WARMUP_EXECUTIONS: Final = 64
# Seconds: of executions as long as that one is enough. Batches that are each compiled for are not
# left out, however long that takes: compiling does not belong in what is timed.
_LONG_EXECUTION_S: Final = 3.0


def time_block(
    executions: Iterator[int],
    block_s: float,
    samples_per_step: float,
    *,
    skip_warmup: bool = False,
    min_warmup_steps: int = 0,
    read_epoch_ends: Callable[[], tuple[int, float]] | None = None,
) -> Block:
    """Let the warm-up pass, then count steps until the time is up.

    Args:
        executions: Runs some steps at each turn and gives their number.
        block_s: How long to time; at least one execution always is.
        samples_per_step: Samples of one step.
        skip_warmup: There is no warm-up: what starts up belongs to what is timed.
        min_warmup_steps: How many steps the warm-up has at least.
        read_epoch_ends: How many epochs have ended so far, and seconds that passed between them.

    Example:
        >>> time_block(iter([1] * 10), 0.0, 32.0).samples
        32.0
    """
    started = time.perf_counter()
    if not skip_warmup:
        _warm_up(executions, block_s, min_warmup_steps)
    async_wait()
    traced_s, ended, steps = (
        total_tracing_s(),
        read_epoch_ends() if read_epoch_ends else (0, 0.0),
        0,
    )
    held = take_memory_snapshot()
    cpu, begin = time.process_time(), time.perf_counter()
    for done in mark_steps(executions):
        steps += done
        if time.perf_counter() - begin >= block_s:
            break
    async_wait()
    wall_s, cpu_s = time.perf_counter() - begin, time.process_time() - cpu
    ends, ends_s = read_epoch_ends() if read_epoch_ends else ended
    return Block(
        steps=steps,
        samples=steps * samples_per_step,
        wall_s=wall_s,
        cpu_s=cpu_s,
        warmup_s=begin - started,
        tracing_s=total_tracing_s() - traced_s,
        epoch_ends=ends - ended[0],
        between_epochs_s=ends_s - ended[1] if read_epoch_ends else None,
        page_fault_s=page_fault_s_since(held),
    )


def _warm_up(executions: Iterator[int], seconds: float, least: int) -> None:
    started, steps = time.perf_counter(), 0
    for count, done in enumerate(executions, start=1):
        steps += done
        warm_s = time.perf_counter() - started
        long_enough = warm_s >= WARMUP_SHARE * seconds or count >= MAX_WARMUP_EXECUTIONS
        enough = count >= MIN_WARMUP_EXECUTIONS or warm_s >= _LONG_EXECUTION_S
        if enough and steps >= least and long_enough:
            return
