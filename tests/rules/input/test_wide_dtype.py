from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.evidence.kernels import KernelGroup
from uncork.rules.device import augmentation_in_model
from uncork.rules.input import wide_dtype

WAITING = {"input": 0.8, "step": 0.2}


def found(single_s=0.04, *, cost_s=0.09, shares=None):
    hear = stage(1, "map", cost_s, name="hear", float32_cpu_s_per_element=single_s)
    diagnosis = observed(stage(0, "range"), hear, stage(2, "prefetch"), shares=shares or WAITING)
    return list(wide_dtype.find(diagnosis, MACHINE))


def test_what_single_precision_spares_is_named():
    (finding,) = found()
    assert finding.cause == "wide_dtype"
    assert finding.at == "train.py:21"
    assert finding.upper_bound == pytest.approx(0.1 / 0.04)
    for figure in ("map(hear)", "90 ms", "50 ms less"):
        assert figure in finding.evidence


def test_the_line_that_made_the_wide_numbers_is_blamed_where_it_is_known():
    hear = stage(1, "map", 0.09, float32_cpu_s_per_element=0.04, float64_at="train.py:7")
    (finding,) = wide_dtype.find(observed(stage(0, "range"), hear, shares=WAITING), MACHINE)
    assert finding.at == "train.py:7"


def test_what_narrows_the_batch_in_the_step_goes_with_it():
    cast = KernelGroup(
        phase="forward", share=0.3, calls_per_step=1.0, main_kernel="Cast", batch_only_share=0.3
    )
    loader = stage(0, "pydataset", 0.09, has_python_code=True, float32_cpu_s_per_element=0.03)
    given = observed(loader, shares={"input": 0.4, "step": 0.6}, kernels=(cast,))
    (finding,) = wide_dtype.find(given, MACHINE)
    (without,) = wide_dtype.find(replace(given, kernels=()), MACHINE)
    assert finding.upper_bound > 1.2 * without.upper_bound
    assert list(augmentation_in_model.find(given, MACHINE)) == []
    narrow = replace(given, stages=(replace(loader, float32_cpu_s_per_element=None),))
    (moved,) = augmentation_in_model.find(narrow, MACHINE)
    assert moved.cause == "augmentation_in_model"


@pytest.mark.parametrize(
    "changes",
    [
        {"single_s": None},
        {"single_s": 0.088},
        {"single_s": 0.2},
        {"shares": {"input": 0.05, "step": 0.95}},
        {"cost_s": 0.0},
    ],
)
def test_what_wins_little_is_left_alone(changes):
    assert found(**changes) == []
