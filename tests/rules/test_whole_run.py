"""Whatever is measured: each large part of a run has a finding, and no second is promised twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.costmodel.run_breakdown import break_down_run, is_near_ceiling
from uncork.core.documents.diagnosis import MIN_PART_SHARE, WorkloadDiagnosis
from uncork.core.evidence.batches import RecordedBatches
from uncork.core.evidence.callbacks import CallbackCost, CheckpointCost, Validation
from uncork.core.evidence.loop import StartupLine
from uncork.rules.base.claims import GENERAL_CAUSES, GROUPS_BY_CAUSE, lies_in_same_group
from uncork.rules.judge import judge
from uncork.rules.unclaimed import CAUSES

_SECONDS = st.floats(0.0, 50.0)
_FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def diagnoses(draw: st.DrawFn) -> WorkloadDiagnosis:
    weights = [draw(st.floats(least, 1.0)) for least in (0.0, 0.0, 0.01, 0.0)]
    whole = sum(weights)
    shares = dict(
        zip(("input", "host", "step", "unknown"), (w / whole for w in weights), strict=True)
    )
    step_s = draw(st.floats(1e-3, 1.0))
    waited_s = shares["input"] * step_s
    parallelism = draw(st.sampled_from((None, 1)))
    stages = (
        stage(0, "map", draw(st.floats(0.0, 1.0)) * waited_s, parallelism=parallelism),
        stage(1, "batch", draw(st.floats(0.0, 0.3)) * waited_s),
    )
    changes: dict[str, Any] = {
        "workload": {
            "steps_per_epoch": draw(st.sampled_from((None, 1, 20, 300))),
            "epochs": draw(st.integers(1, 20)),
            "is_epoch_count_assumed": draw(st.booleans()),
            "is_fit_in_loop": draw(st.sampled_from((False, False, True))),
        },
        "first_step_s": draw(_SECONDS),
        "tracing_share": draw(st.sampled_from((0.0, 0.0, 0.4))),
        "startup_lines": tuple(
            StartupLine(at=f"train.py:{n}", seconds=draw(_SECONDS), kind=kind)
            for n, kind in enumerate(draw(st.sampled_from(((), ("line",), ("line", "imports")))))
        ),
        "callbacks": tuple(
            CallbackCost(
                name="Own", batch_s=draw(st.floats(0.0, 0.1)), epoch_s=draw(st.floats(0.0, 20.0))
            )
            for _ in range(draw(st.integers(0, 2)))
        ),
    }
    if draw(st.booleans()):
        changes["validation"] = Validation(
            validation_s=draw(_SECONDS),
            sample_count=draw(st.integers(1, 10_000)),
            validation_count=draw(st.integers(1, 20)),
        )
    if draw(st.booleans()):
        changes["checkpoint_cost"] = CheckpointCost(
            name="Saver", save_s=draw(_SECONDS), save_cpu_s=0.1, copy_s=0.1, copy_bytes=9,
            every_steps=draw(st.integers(1, 300)), trial_steps=1,
        )  # fmt: skip
    found = observed(*stages, step_s=step_s, shares=shares, **changes)
    if draw(st.booleans()):
        found = replace(found, ceilings={**found.ceilings, "supply": draw(st.floats(1.0, 1e6))})
    if draw(st.booleans()):
        kept = RecordedBatches(
            batch_count=9, new_step_s=step_s, known_step_s=step_s, start_s=draw(_SECONDS)
        )
        found = replace(found, recorded_batches=kept)
    return found


@seed(1)
@_FEW
@given(diagnoses())
def test_the_parts_of_a_run_add_up(found):
    run = break_down_run(found)
    assert all(part.seconds >= 0 for part in run.parts)
    assert all(0 <= part.least_s <= part.seconds * (1 + 1e-9) for part in run.parts)
    assert sum(run.share(part) for part in run.parts) == pytest.approx(1.0)


@seed(2)
@_FEW
@given(diagnoses())
def test_each_large_part_has_a_finding(found):
    run = break_down_run(found)
    causes = {finding.cause for finding in judge(found, MACHINE).findings}
    for group in CAUSES:
        if run.avoidable_s(group) > MIN_PART_SHARE * run.seconds * (1 + 1e-9):
            able = {cause for cause, groups in GROUPS_BY_CAUSE.items() if group in groups}
            assert causes & able, group


@seed(3)
@_FEW
@given(diagnoses())
def test_no_second_is_promised_twice(found):
    findings = judge(found, MACHINE).findings
    assert sum(finding.own_run_share or 0.0 for finding in findings) <= 1 + 1e-9
    for finding in findings:
        if finding.run_share is not None and finding.own_run_share is not None:
            assert 0 <= finding.own_run_share <= finding.run_share <= 1 + 1e-9
            shared = finding.own_run_share < finding.run_share * (1 - 1e-3)
            assert (finding.same_time_as is not None) or not shared


@seed(4)
@_FEW
@given(diagnoses())
def test_healthy_is_said_only_near_the_ceiling(found):
    findings = judge(found, MACHINE).findings
    if "healthy" in {finding.cause for finding in findings}:
        assert len(findings) == 1
        assert is_near_ceiling(found)
        assert break_down_run(found).headroom <= 1.1
    if not findings:
        assert not is_near_ceiling(found)


@seed(5)
@_FEW
@given(diagnoses())
def test_what_costs_more_of_the_run_comes_first(found):
    speed = [f for f in judge(found, MACHINE).findings if f.severity == "speed"]
    known = [f for f in speed if f.cause != "healthy" and f.cause not in GENERAL_CAUSES]
    shares = [f.run_share or 0.0 for f in known]
    assert shares == sorted(shares, reverse=True)
    for general in (f for f in speed if f.cause in GENERAL_CAUSES):
        behind = speed[speed.index(general) :]
        assert not any(lies_in_same_group(f, general) for f in behind if f in known)
