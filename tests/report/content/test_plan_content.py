from __future__ import annotations

import math

import pytest

from records import FINDINGS, STEPS, diagnosis, empty_plan, healthy_diagnosis, plan
from uncork.core.base.record import replace
from uncork.core.documents.plan import (
    NO_TIME_REASON,
    Proof,
    Ratio,
    Speedup,
    TimeToFinish,
    ValidationTimes,
)
from uncork.core.edits.step import MicroBatches, RecomputeActivations
from uncork.report.content.diagnosis_content import next_command
from uncork.report.content.plan_content import plan_info, speed_chart
from uncork.report.content.plan_sentences import cost_sentence, plan_verdict
from uncork.report.content.proof_text import proof_text

KEPT = next(step for step in STEPS if step.outcome == "kept")


def speedup(verdict, ratio=1.01, low=0.97, high=1.06):
    return Speedup(ratio=ratio, low=low, high=high, verdict=verdict, n_processes=4)


def test_verdict_of_a_proved_plan():
    said = plan_verdict(plan())
    assert said.text == (
        "train.py:41 trains 3.8x as fast: 606 to 2,297 samples/s, 93 % of what its training step"
        f" allows. Guarantee: {plan().guarantee}. Proved by: {proof_text(plan())}."
    )


def test_an_unproved_speed_up_is_never_called_faster():
    said = plan_verdict(plan(speedup=speedup("not_proven")))
    assert "proved no speed-up" in said.sentence
    assert said.cause == "Fresh processes gave 0.97x to 1.06x."
    assert "slower" in plan_verdict(plan(speedup=speedup("slower", 0.8, 0.7, 0.9))).sentence


def validated(verdict, ratio=8.0):
    found = replace(speedup(verdict, ratio, 7.5, 8.5), n_processes=6)
    return ValidationTimes(baseline_s=3.2, tuned_s=0.4, speedup=found)


def test_a_training_that_is_no_faster_may_validate_faster():
    shown = plan(speedup=speedup("not_proven"), validation_times=validated("faster"))
    said = plan_verdict(shown)
    assert said.sentence == "train.py:41 validates 8.0x as fast: 3.2 s to 400 ms."
    assert said.tone == "healthy"
    info = plan_info(shown)
    assert info.next_command.startswith("uncork run")
    assert info.validation_text == "3.2 s before, 400 ms after (8.0x, 7.5x to 8.5x)"
    unclear = plan(speedup=speedup("not_proven"), validation_times=validated("not_proven", 1.1))
    assert "proved no speed-up" in plan_verdict(unclear).sentence
    assert plan_info(plan()).validation_text == ""


def test_a_training_that_is_no_faster_may_save_beside():
    found = Ratio(ratio=1.31, low=1.2, high=1.4)
    step = replace(KEPT, name="async_checkpoint", is_for_checkpoints=True, measured=found)
    shown = plan(speedup=speedup("not_proven"), steps=(step,))
    said = plan_verdict(shown)
    assert said.sentence.startswith("train.py:41 trains and saves 1.31x as fast")
    assert plan_info(shown).next_command.startswith("uncork run")
    assert all(point.samples_per_s != 1.31 * 606 for point in speed_chart(shown).points)


@pytest.mark.parametrize("proof", [None, Proof(kind="exact", passed=False, detail="differs")])
def test_a_kept_step_without_a_proof_is_exposed(proof):
    unproved = plan(steps=(replace(KEPT, proof=proof),))
    assert plan_verdict(unproved).cause == "Not proved: split map."


def test_steps_for_which_there_was_no_time_are_told():
    slow = empty_plan(before=healthy_diagnosis(headroom=3.0, findings=FINDINGS), steps=())
    assert "no time" not in plan_verdict(slow).cause
    late = tuple(
        replace(STEPS[0], name=name, outcome="skipped", reason=NO_TIME_REASON) for name in "ab"
    )
    told = plan_verdict(replace(slow, steps=late)).cause
    assert told.endswith("For 2 of 2 optimizations there was no time. Try a longer --budget.")


def test_what_does_not_fit_as_written_trains_in_parts():
    needed = replace(KEPT, name="micro_batches", edits=(MicroBatches(parts=4),))
    shown = plan(steps=(needed,), speedup=replace(speedup("not_proven"), n_processes=1))
    assert plan_verdict(shown).sentence.startswith("train.py:41 trains with micro-batches, at ")
    assert "runs out of memory" in plan_verdict(shown).cause
    info = plan_info(shown)
    assert info.next_command.startswith("uncork run")
    assert "the original runs out of memory" in info.confirmation_text


def test_what_does_not_fit_in_parts_is_made_again():
    edits = (RecomputeActivations(segments=4),)
    needed = replace(KEPT, name="recompute_activations", edits=edits)
    shown = plan(steps=(needed,), speedup=replace(speedup("not_proven"), n_processes=1))
    assert plan_verdict(shown).sentence.startswith("train.py:41 trains with recomputed activations")
    assert plan_info(shown).next_command.startswith("uncork run")


def test_nothing_kept_is_healthy_only_near_the_ceiling():
    assert plan_verdict(empty_plan()).cause == "Healthy: nothing worth doing."
    far = empty_plan(before=healthy_diagnosis(headroom=3.0, findings=FINDINGS))
    assert plan_verdict(far).tone == "unknown"


def test_a_brake_that_no_step_took_away_is_not_called_healthy():
    near = empty_plan(before=healthy_diagnosis(headroom=1.0, findings=FINDINGS))
    found = plan_verdict(near)
    assert found.tone == "unknown"
    assert "Uncork found stateful serial map, but no optimization was faster" in found.cause


def test_the_road_rises_from_baseline_to_confirmation():
    drawn = speed_chart(plan())
    assert [(p.kind, p.label) for p in drawn.points] == [
        ("baseline", "baseline"),
        ("accepted", "split map"),
        ("accepted", "cache"),
        ("accepted", "prefetch"),
        ("accepted", "steps per execution"),
        ("rejected", "jit compile"),
        ("rejected", "mixed bfloat16"),
        ("confirmed", "fresh processes"),
    ]
    speeds = [p.samples_per_s for p in drawn.points]
    gained = [606 * gain for gain in (1, 1.83, 1.83 * 1.74, 1.83 * 1.74 * 1.15)]
    assert speeds[:4] == pytest.approx(gained)
    assert speeds[5:7] == pytest.approx([gained[3] * 1.03 * 0.71, gained[3] * 1.03 * 1.21])
    assert speeds[7] == pytest.approx(606 * 3.79)
    assert drawn.points[1].guarantee == "exact"
    assert drawn.points[1].is_proved
    assert drawn.ceiling == pytest.approx(606 * 3.79 * 2480 / 2298)


def test_a_kept_step_without_a_speed_gets_the_one_its_ratio_implies():
    drawn = speed_chart(plan(steps=(replace(KEPT, samples_per_s=None),)))
    assert drawn.points[1].samples_per_s == pytest.approx(606 * 1.83)


def test_a_failed_step_without_figures_is_still_on_the_road():
    failed = replace(KEPT, outcome="failed", measured=None, samples_per_s=None, edits=())
    point = speed_chart(plan(steps=(failed,))).points[1]
    assert (point.kind, point.samples_per_s, point.gain) == ("failed", None, "")


def test_every_step_is_in_exactly_one_table():
    info = plan_info(plan())
    rows = (*info.accepted, *info.not_accepted, *info.skipped)
    assert sorted(row.name for row in rows) == sorted(step.name for step in STEPS)
    assert all(row.reason for row in rows)
    assert info.accepted[0].edits == (
        "split the map at stage 2 into its deterministic part and the rest",
    )


def test_predictions_stand_beside_what_was_measured():
    first = plan_info(plan()).predictions[0]
    assert (first.name, first.predicted, first.measured) == ("split_map", 1.95, 1.83)
    assert first.error == pytest.approx(-0.0615, abs=1e-3)


@pytest.mark.parametrize("odd", [0.0, math.nan, math.inf])
def test_predictions_that_are_no_number_are_left_out(odd):
    assert plan_info(plan(steps=(replace(KEPT, predicted=odd),))).predictions == ()


def test_infinite_intervals_are_said_to_be_none():
    wide = replace(KEPT, measured=Ratio(ratio=1.8, low=0.0, high=math.inf))
    info = plan_info(plan(steps=(wide,), speedup=speedup("not_proven", 1.8, 0.0, math.inf)))
    assert info.accepted[0].interval == "no interval"
    assert info.confirmation_text == "1.80x (no interval) in 4 fresh processes: not proven"


def test_what_no_fresh_process_measured_is_not_called_confirmed():
    unconfirmed = plan(speedup=replace(speedup("not_proven", 1.0, 0.0, None), n_processes=0))
    info = plan_info(unconfirmed)
    assert info.chart.points[-1].kind != "confirmed"
    assert info.verdict.cause == "Fresh processes did not confirm it."
    assert info.measured_in == "the tuning process"
    assert plan_info(plan()).measured_in == "fresh processes"


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (None, "Tuning took 3 min 34 s."),
        ((168.0, 59.4), "it pays off after 2 trainings."),
        ((9000.0, 900.0), "it pays off after 1 training."),
        ((20.0, 24.0), "a training this short does not repay it."),
    ],
)
def test_what_tuning_cost(time, said):
    finish = time and TimeToFinish(baseline_s=time[0], tuned_s=time[1], is_extrapolated=False)
    assert cost_sentence(plan(time_to_finish=finish)).endswith(said)


@pytest.mark.parametrize(
    ("changed", "command"),
    [
        (plan(), "uncork run --plan 'out dir/plan.json' train.py"),
        (plan(speedup=speedup("not_proven")), "uncork tune train.py"),
        (empty_plan(), "python train.py"),
        (
            plan(arguments=("--data", "my photos")),
            "uncork run --plan 'out dir/plan.json' train.py --data 'my photos'",
        ),
        (
            plan(script="lab/train.py", module="lab.train", arguments=("3",)),
            "uncork run --plan 'out dir/plan.json' -m lab.train 3",
        ),
        (empty_plan(module="lab.train", arguments=("3",)), "python -m lab.train 3"),
        (plan(script="-odd.py"), "uncork run --plan 'out dir/plan.json' ./-odd.py"),
        (
            plan(working_folder="/of/another/machine"),
            "uncork run --plan 'out dir/plan.json' train.py",
        ),
        (plan(script=""), "uncork.fit(model, data, plan=plan)"),
        (plan(script="", speedup=speedup("not_proven")), "plan = uncork.tune(model, data)"),
        (replace(empty_plan(), script=""), "model.fit(data)"),
    ],
)
def test_next_command(changed, command):
    assert plan_info(changed, "out dir/plan.json").next_command == command


def test_the_next_command_is_for_the_folder_of_the_tuning(tmp_path, monkeypatch):
    """Its arguments may be paths."""
    for name in ("my work/out", "other"):
        (tmp_path / name).mkdir(parents=True)
    made = plan(working_folder=str(tmp_path / "my work"))
    run = "uncork run --plan {} train.py"
    monkeypatch.chdir(tmp_path / "my work")
    assert plan_info(made, "out/plan.json").next_command == run.format("out/plan.json")
    monkeypatch.chdir(tmp_path)
    there = f"cd 'my work' && {run.format('out/plan.json')}"
    assert plan_info(made, "my work/out/plan.json").next_command == there
    monkeypatch.chdir(tmp_path / "other")
    there = f"cd '{tmp_path}/my work' && {run.format(tmp_path / 'other' / 'plan.json')}"
    assert plan_info(made, "plan.json").next_command == there
    monkeypatch.chdir("/")
    assert next_command(diagnosis(working_folder=str(tmp_path / "my work"))) == (
        f"cd '{str(tmp_path)[1:]}/my work' && uncork tune train.py"
    )


def test_what_is_not_proven_saves_nothing():
    finish = TimeToFinish(baseline_s=168.0, tuned_s=59.4, is_extrapolated=True)
    noise = plan(speedup=speedup("not_proven"), time_to_finish=finish)
    info = plan_info(noise)
    assert "paid for itself" not in info.cost_text
    assert info.finish_text == ""
    assert info.finish_times is None


def test_after_is_what_the_plan_trains_with():
    """Not what the last step that was tried would have given."""
    unconfirmed = plan(speedup=replace(speedup("not_proven", 1.0, 0.0, None), n_processes=0))
    assert plan_info(unconfirmed).headline.after_samples_per_s == unconfirmed.tuned.samples_per_s


def test_where_nothing_was_tried_that_is_said():
    far = empty_plan(before=healthy_diagnosis(headroom=3.0, findings=FINDINGS), steps=())
    assert "Uncork tried no optimization" in plan_verdict(far).cause


def test_the_same_training_is_tuned_again():
    other = replace(plan().before, workload=replace(plan().before.workload, index=2))
    again = plan(before=other, speedup=speedup("not_proven"))
    assert plan_info(again).next_command == "uncork tune --training 2 train.py"
