from __future__ import annotations

import math

import pytest

from records import (
    FINDINGS,
    MACHINE,
    TRAP,
    WORKLOAD,
    diagnosis,
    healthy_diagnosis,
    measurement,
    workload_diagnosis,
)
from uncork.core.base.measurement import Spread
from uncork.core.base.record import replace
from uncork.report.content.diagnosis_content import (
    cost_text,
    diagnosis_info,
    main_bottleneck,
    next_command,
    noise_sentence,
    step_time,
    verdict,
    workload_info,
)

ENVIRONMENT = replace(
    FINDINGS[0], cause="missing_gpu_library", severity="environment", at=None, upper_bound=20.0
)
# What it hides nobody can tell.
HIDDEN = replace(ENVIRONMENT, cause="no_accelerator", share=0.0, upper_bound=1.0)


def test_verdict_names_speed_ceiling_and_brake():
    said = verdict(workload_diagnosis())
    assert said.text == (
        "train.py:41 trains 612 samples/s; this machine could train 2,480 (4.1x)."
        " Bottleneck: stateful_serial_map at train.py:23."
    )
    assert said.tone == "bottleneck"


def test_health_is_said_plainly():
    said = verdict(healthy_diagnosis())
    assert said.text == (
        "train.py:41 trains 2,412 samples/s, 97 % of what its training step allows."
        " Healthy: nothing worth doing."
    )
    assert said.tone == "healthy"


def test_health_does_not_hide_a_trap():
    said = verdict(healthy_diagnosis(findings=(TRAP,)))
    assert said.tone == "healthy"
    assert said.cause.endswith(
        "But this makes the training wrong: random_under_cache at train.py:22."
    )


def test_nothing_found_far_from_the_ceiling_is_unknown_not_healthy():
    said = verdict(workload_diagnosis(findings=()))
    assert said.cause == "No single cause: 76 % of the whole run is lost in several small parts."
    assert said.tone == "unknown"


def test_where_noise_hides_the_brakes_nothing_is_called_healthy():
    hidden = {"input": 0.0, "host": 0.0, "step": 0.6, "unknown": 0.4}
    said = verdict(healthy_diagnosis(breakdown=hidden, findings=()))
    assert said.cause == "Noise hides the bottlenecks. Try a longer --budget."
    assert said.tone == "unknown"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_unknown_ceiling_is_called_unknown(value):
    said = verdict(workload_diagnosis(ceilings={"consumer": value}, headroom=value))
    assert "how fast this machine could train is unknown" in said.sentence
    assert verdict(workload_diagnosis(ceilings={})).sentence == said.sentence


def test_the_main_brake_is_the_largest_gain_and_never_a_trap():
    found = workload_diagnosis(findings=(TRAP, FINDINGS[2], FINDINGS[0]))
    assert main_bottleneck(found) == FINDINGS[0]
    assert main_bottleneck(healthy_diagnosis()) is None


def test_what_hides_an_accelerator_comes_before_what_is_known():
    assert main_bottleneck(workload_diagnosis(findings=(FINDINGS[0], HIDDEN))) == HIDDEN
    assert cost_text(HIDDEN) == "its cost is unknown"


def test_a_share_is_one_of_what_it_was_taken_of():
    found = replace(FINDINGS[0], share=0.88, upper_bound=8.7, upper_bound_interval=None)
    assert (
        cost_text(replace(found, share_of="the whole run")) == "88 % of the whole run, up to 8.7x"
    )
    assert cost_text(found) == "88 % of the step, up to 8.7x"
    assert cost_text(TRAP) == "makes the training wrong"


def test_step_time_adds_up_and_leaves_out_what_is_not_there():
    step = step_time(
        workload_diagnosis(breakdown={"step": 0.25, "input": 0.75, "host": 0.0}), "now"
    )
    assert [(part.key, part.share) for part in step.parts] == [("input", 0.75), ("step", 0.25)]
    assert sum(part.seconds for part in step.parts) == pytest.approx(step.seconds)


def test_a_category_of_a_newer_version_is_shown_by_its_name():
    step = step_time(workload_diagnosis(breakdown={"network": 0.5, "step": math.nan}), "now")
    assert [(part.key, part.label) for part in step.parts] == [("unknown", "network")]


def test_ceilings_are_lowest_first_and_unknown_last():
    info = workload_info(
        workload_diagnosis(ceilings={"host": math.nan, "consumer": 9.0, "supply": 3.0}), MACHINE
    )
    assert [each.name for each in info.ceilings] == ["supply", "consumer", "host"]


def test_noise_of_one_block_is_unknown():
    one = replace(measurement(10), step_s=Spread(median=3.2, low=0.0, high=math.inf, n=1))
    assert noise_sentence(one) == "noise unknown"
    assert workload_info(workload_diagnosis(measurement=one), MACHINE).step_time.interval == (
        "no interval: 1 block measured"
    )
    assert noise_sentence(measurement(10)) == "within 0.8 %"


def test_only_the_step_can_set_the_pace_of_a_known_pipeline():
    assert not workload_info(workload_diagnosis(), MACHINE).is_step_bottleneck
    assert workload_info(healthy_diagnosis(), MACHINE).is_step_bottleneck
    assert not workload_info(healthy_diagnosis(stages=()), MACHINE).is_step_bottleneck


@pytest.mark.parametrize(
    ("workload", "script", "command"),
    [
        (workload_diagnosis(), "train.py", "uncork tune train.py"),
        (workload_diagnosis(), "my train.py", "uncork tune 'my train.py'"),
        (healthy_diagnosis(), "train.py", "python train.py"),
        (workload_diagnosis(findings=(ENVIRONMENT,)), "train.py", "uncork diagnose train.py"),
        (
            workload_diagnosis(workload=replace(WORKLOAD, index=2)),
            "train.py",
            "uncork tune --training 2 train.py",
        ),
        (
            workload_diagnosis(workload=replace(WORKLOAD, index=2, is_fit_in_loop=True)),
            "train.py",
            "uncork tune train.py",
        ),
        (
            workload_diagnosis(findings=(FINDINGS[0], HIDDEN)),
            "train.py",
            "uncork diagnose train.py",
        ),
        (workload_diagnosis(), "", "plan = uncork.tune(model, data)"),
        (healthy_diagnosis(), "", "model.fit(data)"),
    ],
)
def test_next_command(workload, script, command):
    assert next_command(diagnosis(workload, script=script)) == command


def test_calls_reached_but_not_diagnosed_are_named():
    other = replace(WORKLOAD, index=1, at="train.py:60")
    info = diagnosis_info(diagnosis(reached_workloads=(WORKLOAD, other)))
    assert info.undiagnosed_at == ("train.py:60",)
    assert info.overhead == "The diagnosis took <1 % of a measured step and 11.3 s in all."
    assert dict(info.machine)["Accelerators"] == "none"
