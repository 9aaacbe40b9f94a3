from __future__ import annotations

from typing import Any

import pytest

from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.documents.diagnosis import Finding
from uncork.core.evidence.batches import VaryingShapes
from uncork.core.evidence.callbacks import CallbackCost, CheckpointCost, Validation
from uncork.core.evidence.loop import StartupLine
from uncork.rules import unclaimed
from uncork.rules.judge import judge

RUN = {"steps_per_epoch": 100, "epochs": 2}
NEAR: dict[str, Any] = {"step_s": 0.1, "workload": RUN, "shares": {"step": 1.0}}


def causes(diagnosis):
    return [finding.cause for finding in judge(diagnosis, MACHINE).findings]


def test_an_input_that_no_rule_explains_is_named_with_its_slowest_stage():
    stages = (stage(0, "map", 0.01, name="load"), stage(1, "batch", 0.002))
    found = observed(*stages, step_s=0.1, workload=RUN, shares={"input": 0.46, "step": 0.54})
    (finding,) = judge(found, MACHINE).findings
    assert finding.cause == "input_bound"
    assert finding.share == pytest.approx(0.46)
    assert finding.upper_bound == pytest.approx(1 / 0.54)
    assert finding.at == "train.py:20"
    assert "46% of the whole run goes to waiting for input" in finding.evidence
    assert "the slowest stage is map(load)" in finding.evidence


def test_compiling_for_each_shape_tells_how_many_programs():
    shapes = VaryingShapes(
        batch_count=50, shape_count=41, seen_once=0, seen_twice=0, compile_s_per_shape=0.5
    )
    found = observed(**NEAR, varying_shapes=shapes)
    (finding,) = unclaimed.find(found, ())
    assert finding.cause == "compile_time"
    assert "of 41 programs for 41 shapes" in finding.evidence
    assert causes(found) == ["recompiling"]  # which claims all of it


def test_a_first_step_that_takes_long_is_compile_time():
    (finding,) = judge(observed(**NEAR, first_step_s=10.0), MACHINE).findings
    assert finding.cause == "compile_time"
    assert finding.upper_bound == pytest.approx(30 / 21)  # the first second is in any training
    assert causes(observed(**NEAR, first_step_s=1.0)) == ["healthy"]


@pytest.mark.parametrize(
    ("cause", "changes"),
    [
        ("validation_time", {"validation": Validation(
            validation_s=4.0, sample_count=1300, validation_count=2)}),
        ("saving_time", {"checkpoint_cost": CheckpointCost(
            name="Saver", save_s=4.0, save_cpu_s=1.0, copy_s=1.0, copy_bytes=9, every_steps=100,
            trial_steps=9)}),
        ("callbacks", {"callbacks": tuple(
            CallbackCost(name=f"Board{n}", epoch_s=0.8) for n in range(4))}),
        ("slow_start", {"startup_lines": (
            StartupLine(at="train.py:3", seconds=9.0, kind="other lines"),)}),
        ("host_bound", {"shares": {"step": 0.7, "host": 0.3}, "workload": {
            **RUN, "is_eager_step": True}, "breakdown_intervals": {}}),
    ],
)  # fmt: skip
def test_each_part_has_a_name_of_its_own(cause, changes):
    found = observed(**{**NEAR, **changes})
    assert cause in {finding.cause for finding in unclaimed.find(found, ())}


def test_an_import_is_nobody_s_loss():
    lines = (StartupLine(at="train.py:1", seconds=30.0, kind="imports"),)
    assert causes(observed(**NEAR, startup_lines=lines)) == ["healthy"]


def test_what_a_specific_finding_claims_by_half_has_a_name_already():
    found = observed(step_s=0.1, workload=RUN, shares={"input": 0.6, "step": 0.4})
    half = Finding(
        cause="serial_map", share=0.4, upper_bound=1.6, at=None, evidence=".", remedy="."
    )
    assert not list(unclaimed.find(found, (half,)))
    less = replace(half, upper_bound=1.2)
    (finding,) = unclaimed.find(found, (less,))
    assert finding.share == pytest.approx(0.6 - 1 / 6)
    assert "17% of it named above" in finding.evidence


def test_a_callback_that_takes_most_of_the_run_comes_before_a_tweak_of_the_step():
    found = observed(
        **{**NEAR, "shares": {"step": 0.6, "host": 0.4}},
        callbacks=(CallbackCost(name="Board", epoch_s=190.0),),
    )
    first, second = judge(found, MACHINE).findings
    assert (first.cause, second.cause) == ("callbacks", "small_steps")
    assert first.run_share == pytest.approx(380 / 400)
    assert first.upper_bound == pytest.approx(20.0)
    assert second.run_share == pytest.approx(8 / 400)


def test_the_second_of_two_findings_about_the_same_seconds_says_so():
    stages = (stage(0, "map", 0.08, parallelism=1),)
    found = judge(
        observed(*stages, step_s=0.1, workload=RUN, shares={"input": 0.8, "step": 0.2}), MACHINE
    )
    one = replace(found.findings[0], cause="cache_missing", upper_bound=5.0)
    from uncork.core.costmodel.run_breakdown import break_down_run  # noqa: PLC0415
    from uncork.rules.base.claims import claim_in_order  # noqa: PLC0415

    first, second = claim_in_order([one, found.findings[0]], break_down_run(found))
    assert first.same_time_as is None
    assert first.own_run_share == pytest.approx(0.8)
    assert second.same_time_as == "cache_missing"
    assert second.own_run_share < second.run_share


def test_a_callback_that_saves_among_the_batches_claims_its_saves():
    """Saves have a group of their own in the run, and the callback is their cause."""
    saves = CheckpointCost(
        name="Saver", save_s=0.4, save_cpu_s=0.2, copy_s=0.1, copy_bytes=9, every_steps=2,
        trial_steps=9, at="train.py:7",
    )  # fmt: skip
    saver = CallbackCost(name="Saver", batch_s=0.2, action_s=0.4, at="train.py:7")
    found = observed(**NEAR, checkpoint_cost=saves, callbacks=(saver,))
    (finding,) = judge(found, MACHINE).findings
    assert finding.cause == "callbacks"
    assert finding.run_share == pytest.approx(0.65, abs=0.02)
