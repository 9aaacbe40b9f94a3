"""The meeting of a user's loop and the engine, with a clock that only the loop moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from uncork.capture.base.stop import StopScript
from uncork.core.base.errors import NothingToMeasure
from uncork.engine.loop import loop_driver as switchboard
from uncork.engine.loop.loop_driver import LoopDriver, run_engine_thread
from uncork.measure.benchmark.interleave import Block

SAMPLES = 8.0


class Clock:
    """Stands in for the ``time`` module; CPU time runs at half speed."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.now / 2


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(switchboard, "time", clock)
    return clock


@pytest.fixture
def profiles() -> list[Any]:
    return []


@pytest.fixture
def board(profiles: list[Any]) -> LoopDriver:
    return LoopDriver(SAMPLES, profiles.append)


def epoch() -> Iterator[int]:
    return iter(range(3))


def drive(board: LoopDriver, step: Callable[[Any], None]) -> None:
    """A user's loop."""
    with suppress(StopScript):
        for batch in board:
            step(batch)


def test_a_block_counts_the_steps_of_the_loop(board: LoopDriver, clock: Clock) -> None:
    blocks: list[Block] = []
    run_engine_thread(lambda: blocks.append(board.block(epoch, 6.0)[0]), board, StopScript())
    batches: list[int] = []

    def step(batch: int) -> None:
        batches.append(batch)
        clock.now += 1.0

    drive(board, step)
    (block,) = blocks
    assert block.wall_s == block.steps == 6
    assert block.cpu_s == 3.0
    assert block.samples == 6 * SAMPLES
    assert block.warmup_s == 2.0
    assert batches == [0, 1, 2] * 2 + [0, 1]  # epoch after epoch, warm-up and block


def test_whole_epochs_are_timed_with_their_starts_and_ends(board: LoopDriver, clock: Clock) -> None:
    blocks: list[Block] = []

    def costly() -> Iterator[int]:
        clock.now += 5.0
        yield from range(3)
        clock.now += 3.0

    def work() -> None:
        board.block(costly, 0.0)
        blocks.append(board.block(costly, 20.0, whole_epochs=True)[0])
        blocks.append(board.block(epoch, 0.0, whole_epochs=True)[0])

    run_engine_thread(work, board, StopScript())

    def step(batch: int) -> None:
        del batch
        clock.now += 1.0

    drive(board, step)
    assert [(b.steps, b.wall_s, b.warmup_s) for b in blocks] == [(6, 22.0, 0.0), (3, 3.0, 0.0)]


def test_versions_are_fed_in_turn(board: LoopDriver, clock: Clock) -> None:
    def work() -> None:
        board.block(lambda: iter("aaaaaaaa"), 0.0)
        board.block(lambda: iter("bbbbbbbb"), 0.0)

    run_engine_thread(work, board, StopScript())
    seen: list[str] = []

    def step(batch: Any) -> None:
        seen.append(batch)
        clock.now += 1.0

    drive(board, step)
    assert "".join(seen).rstrip("b").strip("a") == ""
    assert {"a", "b"} == set(seen)


def test_a_loop_left_and_entered_again_goes_on_without_the_pause(
    board: LoopDriver, clock: Clock
) -> None:
    """Epochs cut short by a break, with a validation in between that is no part of the training."""
    blocks: list[Block] = []
    run_engine_thread(lambda: blocks.append(board.block(epoch, 50.0)[0]), board, StopScript())

    def epochs() -> None:
        while True:
            for number, _ in enumerate(board):
                clock.now += 1.0
                if number == 6:
                    break
            clock.now += 1000.0  # validation
            board.resume()

    with pytest.raises(StopScript):
        epochs()
    (block,) = blocks
    assert block.wall_s == block.steps >= 50
    assert block.cpu_s == block.steps / 2


def test_a_loop_that_is_left_begins_anew_where_its_own_data_would(
    board: LoopDriver, clock: Clock
) -> None:
    """What starting another epoch takes is part of the training; the pause before it is not."""
    started: list[float] = []
    blocks: list[Block] = []

    def slow_to_start() -> Iterator[Any]:
        clock.now += 10.0
        started.append(clock.now)
        while True:
            yield "batch"

    run_engine_thread(
        lambda: blocks.append(
            board.block(slow_to_start, 60.0, whole_epochs=True, restart_epoch=True)[0]
        ),
        board,
        StopScript(),
    )

    def epochs() -> None:
        while True:
            for number, _ in enumerate(board, 1):
                clock.now += 1.0
                if number == 5:
                    break
            clock.now += 1000.0  # validation
            board.resume()

    with pytest.raises(StopScript):
        epochs()
    (block,) = blocks
    assert board.steps_before_exit == 5
    # Of each epoch the last step is not known; 10 to start and 4 that are
    assert block.wall_s / block.steps == pytest.approx(14 / 4)
    assert len(started) == 5


def test_profiled_time_of_a_pause_does_not_count(
    board: LoopDriver, clock: Clock, profiles: list[Any]
) -> None:
    found: list[float] = []

    def work() -> None:
        _, ops = board.block(epoch, 5.0, profile_ops=True)
        assert ops is not None
        found.append(ops.seconds)

    run_engine_thread(work, board, StopScript())

    def ops_take(seconds: float) -> None:
        clock.now += seconds
        if profiles and profiles[-1] is not None:
            profiles[-1].seconds += seconds

    def epochs() -> None:
        while True:
            for number, _ in enumerate(board):
                ops_take(0.5)
                if number == 3:
                    break
            ops_take(1000.0)
            board.resume()

    with pytest.raises(StopScript):
        epochs()
    assert 0 < found[0] < 10
    assert profiles[-1] is None  # the profile function is off again


def test_an_empty_dataset_is_told_to_the_engine(board: LoopDriver) -> None:
    raised: list[BaseException] = []

    def work() -> None:
        with pytest.raises(NothingToMeasure) as caught:
            board.block(lambda: iter(()), 1.0)
        raised.append(caught.value)

    run_engine_thread(work, board, StopScript())
    drive(board, lambda batch: None)
    assert raised


def test_an_error_of_the_data_reaches_the_engine_and_then_the_loop(board: LoopDriver) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("truncated JPEG")

    run_engine_thread(lambda: board.block(broken, 1.0) and None, board, StopScript())
    with pytest.raises(ValueError, match="truncated JPEG"):
        for _ in board:
            pass


def test_an_error_of_the_engine_ends_the_loop(board: LoopDriver) -> None:
    def work() -> None:
        raise ZeroDivisionError("in a trial")

    run_engine_thread(work, board, StopScript())
    with pytest.raises(ZeroDivisionError, match="in a trial"):
        next(board)


def test_a_loop_that_does_not_come_back_releases_the_engine(board: LoopDriver) -> None:
    board.abandon(StopScript())
    with pytest.raises(StopScript):
        board.block(epoch, 1.0)


def test_a_loop_that_catches_everything_is_ended_all_the_same(board: LoopDriver) -> None:
    """It skips what cannot be read, and asks for more."""

    def unreadable() -> Iterator[int]:
        raise ValueError("a truncated record")
        yield 0

    run_engine_thread(lambda: board.block(unreadable, 1.0) and None, board, StopScript())
    with pytest.raises(ValueError, match="truncated"):
        next(board)
    for _ in range(2):
        with pytest.raises(NothingToMeasure, match="a truncated record"):
            next(board)
