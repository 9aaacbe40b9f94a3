from __future__ import annotations

from collections import Counter

import pytest

from uncork.engine.loop_lines import loop_lines
from uncork.measure.interleave import Block
from uncork.measure.line_times import LineTimes

BLOCK = Block(steps=10, samples=320, wall_s=0.2, cpu_s=0.2, warmup_s=0.0)


def times(**works):
    found = LineTimes()
    found.file = "train.py"
    for line, (work, seconds) in works.items():
        found.seconds[int(line[1:])] = Counter({work: seconds})
    return found


def test_lines_come_with_seconds_a_step_the_longest_first():
    step, metric = loop_lines(
        times(_8=("metrics", 0.05), _7=("graph", 0.15)), BLOCK, resident_s=0.02
    )
    assert (step.at.rpartition(":")[2], metric.at.rpartition(":")[2]) == ("7", "8")
    assert metric.seconds == pytest.approx(0.005)
    assert metric.share == pytest.approx(0.25)


def test_no_line_takes_more_than_what_the_others_leave_when_nobody_watches():
    """Watched, a step took 20 ms; 12 ms when nobody watched, of which 10 were the graph."""
    _, metric = loop_lines(times(_7=("graph", 0.1), _8=("metrics", 0.1)), BLOCK, resident_s=0.012)
    assert metric.seconds == pytest.approx(0.002)


def test_a_function_whose_value_is_used_belongs_to_the_step():
    (line,) = loop_lines(times(_7=("function", 0.1)), BLOCK, resident_s=0.02)
    assert line.work == "plain"
    assert not line.is_beside
