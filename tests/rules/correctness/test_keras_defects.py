from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.evidence.correctness import KerasDefect
from uncork.core.evidence.kernels import KernelGroup
from uncork.rules.correctness import keras_defects
from uncork.rules.judge import judge

LOST = KerasDefect(
    name="loss_scaling_lost", evidence="Keras does not scale the loss", remedy="compile anew"
)
TWICE = KerasDefect(
    name="student_runs_twice",
    evidence="it does",
    remedy="keep what it gives",
    at="train.py:9",
    has_double_backward=True,
)
BACKWARD = KernelGroup(share=0.6, phase="backward", main_kernel="MatMul", calls_per_step=4.0)


def found(*defects, **changes):
    return list(keras_defects.find(observed(keras_defects=defects, **changes), MACHINE))


def test_each_is_a_trap_that_its_evidence_names():
    first, second = found(LOST, TWICE)
    assert {first.cause, second.cause} == {"keras_defect"}
    assert {first.severity, second.severity} == {"correctness"}
    assert first.evidence == "loss_scaling_lost: Keras does not scale the loss"
    assert (first.at, second.at) == ("train.py:33", "train.py:9")


def test_only_what_runs_twice_costs_time():
    first, second = found(LOST, TWICE, kernels=(BACKWARD,), shares={"step": 1.0})
    assert first.upper_bound == 1.0
    assert second.upper_bound == pytest.approx(1 / (1 - 0.75 * 0.6))


def test_a_training_without_any_is_left_alone():
    assert found() == []


def test_traps_come_before_brakes():
    slow = observed(keras_defects=(LOST,), shares={"host": 0.6, "step": 0.4})
    assert judge(slow, MACHINE).findings[0].cause == "keras_defect"
