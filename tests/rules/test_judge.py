from __future__ import annotations

import pytest

from records import MACHINE, TRAP, healthy_diagnosis, observed, stage, workload_diagnosis
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import Cause
from uncork.core.evidence.stage import ArrayCopy, CachePoint
from uncork.rules import judge as rules
from uncork.rules.judge import judge

MANY = observed(
    stage(
        0,
        "map",
        0.06,
        parallelism=1,
        cache_point=CachePoint(element_count=9, memory_bytes=900, saved_cpu_s_per_step=0.06),
    ),
    stage(1, "map", 0.03, parallelism=1, is_random=True),
    shares={"input": 0.6, "host": 0.2, "step": 0.2},
)


def causes(diagnosis) -> list[Cause]:
    return [finding.cause for finding in judge(diagnosis, MACHINE).findings]


def test_the_largest_bound_comes_first():
    found = judge(MANY, MACHINE).findings
    assert len(found) == 4
    bounds = [finding.upper_bound for finding in found]
    assert bounds == sorted(bounds, reverse=True)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.9, ["array_copies"]), (0.3, ["python_loader", "array_copies"])]
)
def test_why_a_loader_is_slow_stands_instead_of_that_it_is(share, expected):
    copied = ArrayCopy(at="train.py:20", share=share, copied_bytes=10**8, batch_bytes=10**6)
    loader = stage(0, "pydataset", 0.1, parallelism=1, has_python_code=True, array_copy=copied)
    assert causes(observed(loader, shares={"input": 0.7, "step": 0.3})) == expected


def test_the_line_that_explains_a_slow_loader_may_stand_outside_of_it():
    loader = stage(
        *(0, "pydataset", 0.1),
        parallelism=1,
        has_python_code=True,
        float32_cpu_s_per_element=0.02,
        float64_at="train.py:3",
    )
    found = judge(observed(loader, shares={"input": 0.7, "step": 0.3}), MACHINE).findings
    assert [(f.cause, f.at) for f in found] == [("wide_dtype", "train.py:3")]


def test_another_loader_does_not_explain_a_slow_one():
    slow = stage(
        0, "from_generator", 0.06, parallelism=1, has_python_code=True, python_code_at="train.py:7"
    )
    wide = stage(
        *(1, "from_generator", 0.05),
        parallelism=1,
        has_python_code=True,
        python_code_at="train.py:9",
        float32_cpu_s_per_element=0.01,
        float64_at="train.py:3",
    )
    found = causes(observed(slow, wide, shares={"input": 0.7, "step": 0.3}))
    assert {"python_loader", "wide_dtype"} <= set(found)


def test_another_stage_does_not_explain_a_slow_loader():
    loader = stage(0, "from_generator", 0.06, parallelism=1, has_python_code=True)
    wide = stage(1, "map", 0.04, parallelism=1, float32_cpu_s_per_element=0.001)
    found = causes(observed(loader, wide, shares={"input": 0.7, "step": 0.3}))
    assert {"python_loader", "wide_dtype"} <= set(found)


def test_traps_come_before_brakes(monkeypatch):
    environment = replace(TRAP, cause="missing_gpu_library", severity="environment")
    monkeypatch.setattr(rules, "RULES", (*rules.RULES, lambda d, m: iter((environment, TRAP))))
    severities = [finding.severity for finding in judge(MANY, MACHINE).findings]
    assert severities == ["correctness", "environment", *["speed"] * 4]


def test_what_gains_nothing_hides_nothing(monkeypatch):
    """A defect of Keras's, say, of a training whose kernels would be faster in bfloat16."""
    monkeypatch.setattr(rules, "RULES", (lambda d, m: iter((TRAP,)),))
    computing = observed(shares={"step": 1.0}, bfloat16_speedup=LOWER)
    assert causes(computing) == [TRAP.cause, "low_precision_unused"]


def test_the_order_of_rules_does_not_matter(monkeypatch):
    expected = judge(MANY, MACHINE)
    turned = [rules.RULES[i:] + rules.RULES[:i] for i in range(len(rules.RULES))]
    for order in (*turned, *(each[::-1] for each in turned)):
        monkeypatch.setattr(rules, "RULES", order)
        assert judge(MANY, MACHINE) == expected


LOWER = compare([1.0, 1.0], [1.6, 1.6])


def test_nothing_to_gain_is_healthy():
    found = judge(replace(healthy_diagnosis(), findings=()), MACHINE)
    (finding,) = found.findings
    assert finding.cause == "healthy"
    assert finding.upper_bound == 1.0
    assert "95%" in finding.evidence


def test_what_noise_hides_is_not_healthy():
    seen = {"input": 0.0, "host": 0.0, "step": 0.6, "unknown": 0.4}
    assert causes(replace(healthy_diagnosis(), findings=(), breakdown=seen)) == []


def test_what_no_rule_explains_is_named_by_its_kind():
    seen = {"input": 0.41, "step": 0.59}
    assert causes(replace(healthy_diagnosis(), findings=(), breakdown=seen, headroom=1.7)) == [
        "input_bound"
    ]


def test_what_is_too_little_for_a_finding_and_too_much_for_a_ceiling_is_not_healthy():
    seen = {"input": 0.12, "step": 0.88}
    assert causes(replace(healthy_diagnosis(), findings=(), breakdown=seen, headroom=1.14)) == []


def test_healthy_stands_alone():
    assert "healthy" not in causes(MANY)
    assert causes(observed(shares={"step": 1.0}, bfloat16_speedup=LOWER)) == [
        "low_precision_unused"
    ]


def test_a_brake_silences_the_compute_rule():
    shares = {"step": 0.86, "host": 0.14}
    assert causes(observed(shares=shares, bfloat16_speedup=LOWER)) == ["small_steps"]


def test_a_realistic_image_training():
    assert set(causes(workload_diagnosis(memory_available_bytes=64 << 30))) == {
        "stateful_serial_map",
        "cache_missing",
    }


def test_judging_twice_changes_nothing():
    once = judge(MANY, MACHINE)
    assert judge(once, MACHINE) == once
    assert replace(once, findings=()) == replace(MANY, findings=())


@pytest.mark.parametrize(
    "diagnosis",
    [
        observed(),
        observed(breakdown={}),
        observed(ceilings={}),
        observed(stage(0, "opaque", is_opaque=True), shares={"input": 0.99}),
        observed(workload={"model": None, "kind": "custom_loop", "batch_size": None}),
        observed(workload={"epochs": 0, "steps_per_epoch": None}),
        observed(step_s=1e-9, shares={"host": 0.999}),
    ],
)
def test_findings_keep_their_promises(diagnosis):
    for finding in judge(diagnosis, MACHINE).findings:
        assert finding.upper_bound >= 1
        assert 0 <= finding.share <= 1
        assert finding.evidence
        assert finding.remedy
