from __future__ import annotations

import pytest

from records import MACHINE, observed
from uncork.core.base.measurement import compare
from uncork.core.evidence.kernels import KernelGroup
from uncork.rules.host import metrics_every_step

FASTER = compare([100, 101, 99, 100, 100, 101], [300, 302, 297, 301, 300, 303])
ALIKE = compare([100, 101, 99, 100, 100, 101], [100, 99, 101, 101, 100, 100])
PERHAPS = compare([100] * 6, [104, 130, 103, 135, 125, 106])
COMPUTING = {"step": 0.9, "input": 0.1}


def metrics(share):
    part = KernelGroup(phase="metrics", share=share, calls_per_step=9.0, main_kernel="Mul")
    return (
        part,
        KernelGroup(phase="forward", share=1 - share, calls_per_step=9.0, main_kernel="MatMul"),
    )


def found(without, shares=COMPUTING, kernels=(), **workload):
    changes = {"speedup_without_metrics": without, "kernels": kernels}
    diagnosis = observed(shares=shares, workload=workload, **changes)
    return list(metrics_every_step.find(diagnosis, MACHINE))


def test_a_step_that_ran_faster_without_them_is_named_where_it_is_compiled():
    (finding,) = found(FASTER, step_setup_at="train.py:12")
    assert (finding.cause, finding.at) == ("metrics_every_step", "train.py:12")
    assert finding.upper_bound == pytest.approx(1 / (0.1 + 0.9 / 3), rel=0.02)
    assert finding.upper_bound_interval[0] < finding.upper_bound < finding.upper_bound_interval[1]
    assert "3.0" in finding.evidence


def test_their_kernels_must_explain_the_gain_where_they_are_known():
    (finding,) = found(FASTER, kernels=metrics(0.7))
    assert finding.upper_bound == pytest.approx(1 / (0.1 + 0.9 / 3), rel=0.02)
    (finding,) = found(FASTER, kernels=metrics(0.1))
    assert finding.upper_bound == pytest.approx(1 / (1 - 0.9 * 0.2))
    assert found(FASTER, kernels=metrics(0.001)) == []


@pytest.mark.parametrize("without", [None, ALIKE, PERHAPS])
def test_without_a_sure_difference_nothing_is_named(without):
    assert found(without) == []


def test_what_is_not_sure_may_be_proven_all_the_same():
    assert PERHAPS.verdict == "faster"
    assert PERHAPS.ratio > 1.1


def test_little_of_the_whole_is_not_named():
    assert found(FASTER, shares={"step": 0.1, "input": 0.9}) == []
