"""The sums of ``make truth``, on records made by hand."""

from __future__ import annotations

import pytest

from benchmarks.truth.examine import Examined, Named, Tried, Tuned
from benchmarks.truth.page import page
from benchmarks.truth.scores import Share, score
from records import MACHINE


def examined(
    cause: str = "serial_map",
    *found: tuple[str, int | None, float],
    fix: float | None = 2.0,
    fix_steady: float | None = 2.5,
    **changes,
):
    """What a fix wins is told by seconds: of the fixed script, one."""
    layer = "healthy" if cause == "healthy" else "input"
    fields = {
        "name": f"{layer}/{cause}/fit",
        "layer": layer,
        "cause": cause,
        "bottleneck_lines": (36,),
        "slow_s": (fix,) if fix else (),
        "fixed_s": (1.0,),
        "slow_epoch_s": (fix_steady,) if fix_steady else (),
        "fixed_epoch_s": (1.0,),
        "captured": "",
        "findings": tuple(Named(cause=c, line=n, gain=g) for c, n, g in found),
        "wall_s": 40.0,
    }
    return Examined(**{**fields, **changes})


def tried(predicted: float | None, measured: float | None, proved: bool | None = True) -> Tried:
    return Tried(
        name="cache",
        outcome="kept",
        reason="",
        predicted=predicted,
        measured=measured,
        proved=proved,
    )


def tuned(gain: float, *steps: Tried) -> Tuned:
    return Tuned(gain=gain, low=gain, steps=steps, wall_s=60.0)


RIGHT = ("serial_map", 36, 2.5)
WRONG = ("small_steps", 50, 1.5)


def test_where_epochs_differ_the_whole_training_is_what_a_promise_is_held_against():
    found = examined(
        "recompiling", ("recompiling", 36, 1.5), slow_whole_s=(3.0,), fixed_whole_s=(2.0,)
    )
    assert (found.fix, found.fix_steady) == (1.5, 1.5)
    assert score([found]).bound_error.median == 0.0


def test_the_cores_that_a_stand_in_leaves_idle_are_not_what_it_is_there_for():
    idle = ("cpu_quota", None, 1.0)
    for name, first in (("input/serial_map/standin_fit", 1), ("input/serial_map/fit", 0)):
        found = score([examined("serial_map", idle, RIGHT, name=name)])
        assert (found.top1, found.top3) == (Share(first, 1), Share(1, 1))
    quota = examined("cpu_quota", idle, name="machine/cpu_quota/standin_fit")
    assert score([quota]).top1 == Share(1, 1)


def test_what_a_step_takes_that_nothing_explains_is_counted_in_healthy_scripts_too():
    some = [examined(unexplained=0.02), examined("healthy", unexplained=0.04), examined()]
    assert score(some).unexplained.n == 2
    assert score(some).unexplained.median == pytest.approx(0.03)
    assert "no name for, all scripts: 3%" in page(some, "2026-01-31", MACHINE, "0.1")


def test_the_first_finding_counts_and_the_first_three():
    found = score(
        [
            examined("serial_map", RIGHT),
            examined("serial_map", WRONG, RIGHT),
            examined("serial_map", WRONG, WRONG, WRONG, RIGHT),
            examined("serial_map"),
        ]
    )
    assert found.top1 == Share(1, 4)
    assert found.top3 == Share(2, 4)


def test_the_line_is_judged_where_the_cause_was_named():
    elsewhere = ("serial_map", 37, 2.5)
    found = score([examined("serial_map", RIGHT), examined("serial_map", elsewhere), examined()])
    assert found.line == Share(1, 2)


def test_anything_found_in_a_healthy_script_is_a_false_alarm():
    found = score(
        [
            examined("healthy", ("healthy", 3, 1.0)),
            examined("healthy", WRONG),
            examined("healthy", ("healthy", 3, 1.0), WRONG),
        ]
    )
    assert found.alarms == Share(2, 3)
    assert found.top1 == Share(0, 0)


def test_promises_are_held_against_the_steady_gain_of_the_fix():
    found = score([examined("serial_map", ("serial_map", 36, 3.0))])
    assert found.bound_error.median == pytest.approx(0.2)


def test_what_a_fix_wins_is_reckoned_for_all_epochs_of_the_script():
    starts_slowly = examined(slow_s=(11.0,), fixed_s=(6.0,), fix_steady=1.1, epochs=102)
    assert starts_slowly.fix == pytest.approx((11 + 110) / (6 + 100))
    assert starts_slowly.fix_steady == pytest.approx(1.1)
    assert examined(fix_steady=None, epochs=102).fix == pytest.approx(2.0)


def test_what_tune_reached_is_a_share_of_the_time_that_the_fix_saves():
    half = examined("serial_map", tuned=tuned(1 / 0.7))  # the fix saves 60 %, this 30 %
    assert score([half]).reached.median == pytest.approx(0.5)
    assert score([examined(tuned=tuned(0.5)), examined(tuned=tuned(9.0))]).reached.median == 0.5
    assert score([examined(fix=1.0, fix_steady=1.0, tuned=tuned(2.0))]).reached.median is None


def test_predictions_and_proofs_are_those_of_the_steps_that_were_tried():
    steps = (tried(2.0, 4.0), tried(None, 2.0, False), tried(2.0, None, None))
    found = score([examined(tuned=tuned(2.0, *steps))])
    assert found.prediction_error.median == pytest.approx(0.5)
    assert found.proofs == Share(1, 2)


def test_a_fix_that_wins_too_little_does_not_show_its_brake():
    found = score([examined(fix=1.19), examined(fix=1.2), examined("keras_defect", fix=1.0)])
    assert found.slow_as_claimed == Share(1, 2)


def test_capture_is_judged_where_plain_python_repeats_itself():
    found = score([examined(), examined(captured="weights"), examined(captured=None)])
    assert found.captured == Share(1, 2)


def test_a_script_that_does_not_run_is_counted_as_that_and_as_nothing_else():
    broken = examined("serial_map", RIGHT, errors=("plain: exit code 1",))
    found = score([examined("serial_map", RIGHT), broken])
    assert (found.examined, found.top1) == (Share(1, 2), Share(1, 1))


def test_a_script_that_uncork_fails_on_is_one_whose_cause_was_not_named():
    failed = examined("serial_map", errors=("diagnose: exit code 3",))
    found = score([examined("serial_map", RIGHT), failed])
    assert (found.examined, found.top1) == (Share(1, 2), Share(1, 2))


def test_nothing_gives_no_figures():
    assert str(score([]).top1) == "-"
    assert str(score([]).reached) == "-"


def test_the_page_names_every_workload_and_cause():
    shown = page(
        [
            examined("serial_map", RIGHT, tuned=tuned(2.0, tried(2.0, 2.0))),
            examined("healthy", ("healthy", 3, 1.0), name="healthy/mlp", fix=None),
            examined("padding", errors=("diagnose: exit code 1: Traceback",)),
        ],
        "2026-01-31",
        MACHINE,
        "0.1 (1234)",
    )
    assert "| serial_map | 1 of 1 | 1 of 1 |" in shown
    assert (
        "| input/serial_map/fit | 2.00x | 2.50x | serial_map (2.5x, 36) | 2.00x | same |" in shown
    )
    assert "| healthy/mlp |" in shown
    assert "exit code 1" in shown
    assert "0 of 1 healthy" in shown
