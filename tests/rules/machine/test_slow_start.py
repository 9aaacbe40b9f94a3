from __future__ import annotations

import pytest

from records import MACHINE, WORKLOAD, measurement, observed
from uncork.core.base.record import replace
from uncork.core.evidence.callbacks import CallbackCost, Validation
from uncork.core.evidence.loop import StartupLine, UnrolledLoop
from uncork.rules.machine import slow_start

STEPS = WORKLOAD.steps_per_epoch * WORKLOAD.epochs


def found(*seconds, workload=None, **changes):
    lines = tuple(StartupLine(at=f"train.py:{n}", seconds=s) for n, s in enumerate(seconds, 5))
    diagnosis = observed(step_s=0.01, startup_lines=lines, workload=workload, **changes)
    return list(slow_start.find(diagnosis, MACHINE))


def test_preparing_as_long_as_training_doubles_the_run():
    (finding,) = found(0.75 * STEPS * 0.01, 0.25 * STEPS * 0.01)
    assert (finding.cause, finding.at) == ("slow_start", "train.py:5")
    assert finding.upper_bound == pytest.approx(2.0)
    assert finding.share == pytest.approx(0.5)
    assert "before its training starts" in finding.evidence


def test_what_takes_less_than_a_second_is_not_named():
    few = {"steps_per_epoch": 10, "epochs": 2}
    assert found(0.9, workload=few) == []
    (finding,) = found(1.1, workload=few)
    assert finding.upper_bound == pytest.approx(1.3 / 0.2)


def test_tracing_and_validations_belong_to_the_training():
    training_s = STEPS * 0.01
    before_s = 0.5 * training_s
    (finding,) = found(before_s)
    assert finding.upper_bound == pytest.approx(1.5)
    (finding,) = found(before_s, first_step_s=training_s)
    assert finding.upper_bound == pytest.approx(1.25)
    assert f"takes {2 * training_s:.1f} s" in finding.evidence
    times = WORKLOAD.epochs
    validation = Validation(
        validation_s=training_s / times, sample_count=100, validation_count=times
    )
    assert found(before_s, validation=validation)[0].upper_bound == pytest.approx(1.25)
    pauses = replace(measurement(3_200), between_epochs_share=0.5)  # part of what its steps take
    assert found(before_s, measurement=pauses)[0].upper_bound == pytest.approx(1.5)


def test_what_passes_in_a_framework_is_not_to_be_written_otherwise():
    assert "each row" in found(STEPS * 0.01)[0].remedy
    line = StartupLine(at="train.py:5", seconds=STEPS * 0.01, is_in_framework=True)
    diagnosis = observed(step_s=0.01, startup_lines=(line,))
    (finding,) = slow_start.find(diagnosis, MACHINE)
    assert "save the result of the call" in finding.remedy


def test_a_short_start_of_a_long_training_is_not_named():
    assert found(0.05 * STEPS * 0.01) == []
    assert found() == []


def test_nothing_is_said_where_the_length_of_the_training_is_not_known():
    assert found(1000.0, workload={"steps_per_epoch": None}) == []


def unrolled(seconds, share=0.8):
    ops = {"op_count": 5000, "iterations": 125}
    loop = UnrolledLoop(at="train.py:30", op_share=share, first_step_s=seconds / share, **ops)
    return {"unrolled_loop": loop, "first_step_s": loop.first_step_s}


def test_a_loop_that_is_written_out_belongs_to_the_start():
    """Nothing is left of it, but the steps that follow take twice as long."""
    training_s = STEPS * 0.01
    (finding,) = found(**unrolled(8 * training_s))
    assert finding.at == "train.py:30"
    assert finding.upper_bound == pytest.approx((10 + 1) / (2 + 2))
    assert "5,000 ops" in finding.evidence
    assert "unroll" in finding.remedy


def test_what_takes_longest_of_both_is_blamed():
    (finding,) = found(STEPS * 0.01, **unrolled(0.4 * STEPS * 0.01))
    assert finding.at == "train.py:5"
    assert finding.upper_bound == pytest.approx(2.5 / 1.5)
    assert found(**unrolled(STEPS * 0.01)) == [], "no longer worth it"
    assert found(0.01 * STEPS * 0.01, **unrolled(0.01 * STEPS * 0.01)) == []


def test_callbacks_and_imports_belong_to_the_whole_run():
    """Nine times as long as the steps: what comes before the training is little against that."""
    training_s = STEPS * 0.01
    (alone,) = found(0.5 * training_s)
    assert alone.upper_bound == pytest.approx(1.5)
    slow = CallbackCost(name="Own", epoch_s=9 * training_s / WORKLOAD.epochs)
    assert not found(0.5 * training_s, callbacks=(slow,))
