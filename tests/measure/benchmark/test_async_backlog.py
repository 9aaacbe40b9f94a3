"""Steps that are started faster than they are computed, on TensorFlow's asynchronous executor."""

from __future__ import annotations

import math

import pytest

from uncork.measure.benchmark import async_backlog
from uncork.measure.benchmark.async_backlog import AsyncBacklog, is_execution_async


@pytest.fixture
def waited(asynchronous: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ops run behind Python; one entry for each time that they are waited for."""
    times: list[int] = []
    monkeypatch.setattr(async_backlog, "async_wait", lambda: times.append(1))
    return times


def test_ops_that_run_at_once_leave_no_backlog() -> None:
    backlog = AsyncBacklog()
    assert not is_execution_async()
    backlog.set_limit(1, 1, 0.001, 9.0)
    assert not any(backlog.can_start_next(steps) for steps in range(9))


def test_as_many_are_started_as_were_timed_before(waited: list[int]) -> None:
    backlog, looked_at = AsyncBacklog(), []
    assert is_execution_async()
    for steps in range(1, 40):
        if not backlog.can_start_next(steps):
            looked_at.append(steps)
            backlog.set_limit(steps, steps, 0.01 * steps, 9.0)
    assert looked_at == [1, 2, 4, 8, 16, 32]
    assert len(waited) == 6


@pytest.mark.parametrize(("left_s", "steps"), [(0.05, 5), (0.0, 1), (-1.0, 1), (9.0, 20)])
def test_no_more_than_the_time_that_is_left_allows(
    waited: list[int], left_s: float, steps: int
) -> None:
    backlog = AsyncBacklog()
    backlog.set_limit(20, 20, 0.2, left_s)
    assert [backlog.can_start_next(20 + n) for n in range(steps + 1)] == [True] * steps + [False]


def test_before_anything_is_timed_one_step_is_started(waited: list[int]) -> None:
    backlog = AsyncBacklog()
    backlog.set_limit(20, 0, 0.2, math.inf)
    assert [backlog.can_start_next(20 + n) for n in range(2)] == [True, False]
