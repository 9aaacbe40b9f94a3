from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.base.record import replace
from uncork.core.evidence.loop import LoopLine
from uncork.rules.host import loop_lines
from uncork.rules.judge import judge

STEP = LoopLine(at="train.py:30", work="graph", seconds=0.04, share=0.4)


def line(share, work, number=31, **changes):
    return LoopLine(at=f"train.py:{number}", work=work, seconds=share / 10, share=share, **changes)


def found(*lines, machine=MACHINE, shares=None):
    diagnosis = observed(loop_lines=(STEP, *lines), shares=shares or {"step": 1.0})
    return list(loop_lines.find(diagnosis, machine))


@pytest.mark.parametrize(("work", "cause"), [
    ("metrics", "metrics_every_step"),
    ("evaluation", "validation_setup"),
    ("function", "callbacks"),
])  # fmt: skip
def test_what_a_line_calls_names_it(work, cause):
    (finding,) = found(line(0.5, work))
    assert (finding.cause, finding.at) == (cause, "train.py:31")
    assert finding.upper_bound == pytest.approx(2.0)
    assert "50 ms of a 100 ms step go to line 31 of the loop" in finding.evidence


def test_lines_of_one_kind_count_together():
    (finding,) = found(line(0.3, "metrics"), line(0.2, "metrics", 33))
    assert finding.upper_bound == pytest.approx(2.0)
    assert "line 31 and line 33" in finding.evidence


def test_a_name_that_grows_goes_before_what_makes_it():
    (finding,) = found(line(0.5, "plain", is_accumulating=True))
    assert finding.cause == "growing_state"


def test_a_function_is_blamed_where_it_begins():
    (finding,) = found(line(0.5, "function", function_at="watch.py:3"))
    assert finding.at == "watch.py:3"


def test_the_step_itself_and_short_lines_are_not_named():
    assert found() == []
    assert found(line(0.5, "plain"), line(0.05, "metrics")) == []


def test_what_waits_for_input_is_not_part_of_it():
    (finding,) = found(line(0.5, "metrics"), shares={"input": 0.6, "step": 0.4})
    assert finding.upper_bound == pytest.approx(1 / 0.8)


def test_lines_that_wait_for_an_accelerator_are_not_blamed():
    gpu = replace(MACHINE, devices=("GPU:0 NVIDIA H100",))
    shares = {"host": 0.4, "step": 0.6}
    told = judge(observed(loop_lines=(line(0.4, "metrics"),), shares=shares), gpu)
    assert [each.cause for each in told.findings] == ["small_steps"]
    assert told.loop_lines


def test_python_that_such_a_line_explains_is_not_named_twice():
    shares = {"host": 0.5, "step": 0.5}
    told = judge(observed(loop_lines=(line(0.45, "metrics"),), shares=shares), MACHINE)
    assert [each.cause for each in told.findings] == ["metrics_every_step"]
    alone = judge(observed(shares=shares), MACHINE)
    assert [each.cause for each in alone.findings] == ["small_steps"]
