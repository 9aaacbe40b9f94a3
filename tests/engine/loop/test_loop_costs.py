from __future__ import annotations

from collections import Counter

import pytest

from uncork.engine.loop.loop_costs import loop_lines
from uncork.measure.profile.line_profiler import LineTimes

STEPS = 10


def times(**works):
    found = LineTimes()
    found.file = "train.py"
    for line, (work, seconds) in works.items():
        found.seconds_by_line[int(line[1:])] = Counter({work: seconds})
    return found


def test_lines_come_with_seconds_a_step_the_longest_first():
    step, metric = loop_lines(
        times(_8=("metrics", 0.05), _7=("graph", 0.15)), STEPS, resident_s=0.02
    )
    assert (step.at.rpartition(":")[2], metric.at.rpartition(":")[2]) == ("7", "8")
    assert metric.seconds == pytest.approx(0.005)
    assert metric.share == pytest.approx(0.25)


def test_python_takes_as_much_less_as_a_step_is_shorter_when_nobody_watches():
    """Watched, a step took 22 ms; 16 ms when nobody watched, of which 10 were the graph."""
    works = {"_7": ("graph", 0.1), "_8": ("metrics", 0.08), "_9": ("plain", 0.04)}
    graph, metric, plain = loop_lines(times(**works), STEPS, resident_s=0.016)
    assert graph.seconds == pytest.approx(0.010)
    assert metric.seconds == pytest.approx(0.004)
    assert plain.seconds == pytest.approx(0.002)
    assert graph.share + metric.share + plain.share == pytest.approx(1.0)


def test_a_function_whose_value_is_used_belongs_to_the_step():
    (line,) = loop_lines(times(_7=("function", 0.1)), STEPS, resident_s=0.02)
    assert line.work == "plain"
    assert not line.is_outside_step
