from __future__ import annotations

import pytest

from records import MACHINE, WORKLOAD, observed
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.rules.device import low_precision_harmful

MIXED = replace(WORKLOAD.model, dtype_policies=("mixed_float16", "float32"))
TWICE_AS_FAST = compare([100.0, 101.0, 99.0], [200.0, 203.0, 197.0])


def found(model=MIXED, **changes):
    fields = {"float32_speedup": TWICE_AS_FAST, **changes}
    shares = {"step": 0.9, "input": 0.1}
    work = {"model": model, "dtype_policy_at": "train.py:9"}
    diagnosis = observed(shares=shares, workload=work, **fields)
    return list(low_precision_harmful.find(diagnosis, MACHINE))


def test_a_step_that_ran_faster_in_float32_is_named_where_the_policy_was_set():
    (finding,) = found()
    assert finding.cause == "low_precision_harmful"
    assert finding.at == "train.py:9"
    assert 1.7 < finding.upper_bound < 1.9
    assert finding.upper_bound_interval[0] <= finding.upper_bound <= finding.upper_bound_interval[1]
    for words in ("mixed_float16", "90 ms of a 100 ms step", "2.00x", MACHINE.cpu_model):
        assert words in finding.evidence


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([100.0, 101.0, 99.0], [50.0, 51.0, 49.0]),
        ([100.0, 90.0, 120.0], [130.0, 95.0, 118.0]),
        ([100.0, 100.1, 99.9], [106.0, 106.1, 105.9]),
    ],
)
def test_what_float32_does_not_help_is_not_blamed_on_the_policy(ours, theirs):
    assert found(float32_speedup=compare(ours, theirs)) == []


def test_what_was_not_tried_is_not_claimed():
    assert found(float32_speedup=None) == []


def test_the_model_of_a_loop_of_ones_own_is_known_by_what_it_did():
    (finding,) = found(model=None)
    assert "kernels in mixed precision" in finding.evidence
    assert finding.remedy.startswith("train without mixed precision")
