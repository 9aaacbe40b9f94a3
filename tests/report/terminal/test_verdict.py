from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from records import (
    FINDINGS,
    STEPS,
    TRAP,
    diagnosis,
    empty_plan,
    healthy_diagnosis,
    plan,
    workload_diagnosis,
)
from uncork.core.base.record import replace
from uncork.core.documents.plan import NO_TIME_REASON, PlanStep
from uncork.report.terminal.verdict import (
    MAX_LINES,
    diagnosis_verdict_text,
    plan_verdict_text,
)

LONG_AT = "/home/someone/projects/with/a/long/name/train_the_model.py:123"
CROWDED = workload_diagnosis(
    workload=replace(workload_diagnosis().workload, at=LONG_AT),
    findings=(TRAP, *(replace(f, at=LONG_AT) for f in FINDINGS * 2)),
    notes=("a long note, " * 30,) * 5,
)
MANY = tuple(
    replace(step, name=f"{step.name}_{n}", reason=step.reason * 3)
    for n in range(12)
    for step in STEPS
)


def labels(text: str) -> list[str]:
    return re.findall(r"^([A-Z][a-z-]+(?: [a-z]+)?)(?:  |:)", text, re.MULTILINE)


def test_a_plan_answers_five_questions_in_this_order() -> None:
    text = plan_verdict_text(plan())
    assert labels(text) == ["Slow", "Done", "Speed-up", "Changes", "Next"]
    assert "stateful_serial_map at train.py:23: 75 % of the step" in text
    assert "split map 1.83x (1.79x to 1.88x): split the map at stage 2" in text
    assert "trains 3.8x as fast: 606 to 2,297 samples/s" in text
    assert "3.8x (3.7x to 3.9x) in 6 fresh processes: faster" in text
    assert "exact, proved: same elements, same order, same weights, bit for bit" in text
    assert text.splitlines()[-1] == "Next: uncork run --plan plan.json train.py"


def test_a_diagnosis_answers_the_same_questions() -> None:
    text = diagnosis_verdict_text(diagnosis())
    assert labels(text) == ["Slow", "Done", "Speed-up", "Changes", "To do", "Note", "Next"]
    assert text.startswith("Slow         train.py:41 trains 612 samples/s; this machine could")
    assert "possible: up to 4.1x without stateful_serial_map" in text
    assert text.splitlines()[-1] == "Next: uncork tune train.py"


def test_where_nothing_is_slow_or_done_that_is_said() -> None:
    text = diagnosis_verdict_text(diagnosis(healthy_diagnosis()))
    assert "Healthy: nothing worth doing." in text
    assert "none to be expected" in text
    assert "the input is ready 99 % of the time" in text
    kept_out = plan_verdict_text(empty_plan())
    assert "Uncork leaves it unmodified" in kept_out
    assert "nothing: the training stays unmodified" in kept_out


def test_what_makes_a_training_wrong_is_said_beside_its_speed() -> None:
    text = diagnosis_verdict_text(diagnosis(CROWDED), 120)
    assert "makes the training wrong" in text


@pytest.mark.parametrize("draw", [
    lambda width: diagnosis_verdict_text(diagnosis(), width),
    lambda width: diagnosis_verdict_text(diagnosis(CROWDED, CROWDED), width),
    lambda width: plan_verdict_text(plan(), width),
    lambda width: plan_verdict_text(plan(before=CROWDED, steps=MANY, notes=CROWDED.notes), width),
    lambda width: plan_verdict_text(empty_plan(), width),
])  # fmt: skip
@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_a_verdict_fits_the_screen(draw: Callable[[int], str], width: int) -> None:
    lines = draw(width).splitlines()
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= width
    assert lines[-1].startswith("Next: ")


def test_notes_give_way_to_all_else() -> None:
    crowded = plan(before=CROWDED, steps=MANY, notes=CROWDED.notes)
    assert labels(plan_verdict_text(crowded, 60)) == [
        "Slow", "Done", "Speed-up", "Changes", "Note", "Next",
    ]  # fmt: skip


def skipped(name: str, reason: str, predicted: float | None = None) -> PlanStep:
    return PlanStep(name=name, stage="input", outcome="skipped", reason=reason, predicted=predicted)


def test_not_tried_are_the_four_that_promised_most() -> None:
    late = [skipped(name, NO_TIME_REASON, gain) for name, gain in
            {"a_b": 1.1, "c_d": 2.5, "e_f": 1.05, "g_h": 3.0, "i_j": 1.6}.items()]  # fmt: skip
    text = plan_verdict_text(plan(steps=(*STEPS, skipped("x_y", "no map"), *late)), 120)
    rows = text[text.index("Not tried") :].splitlines()[:4]
    named = [re.findall(r"([a-z] [a-z]) \(may reach ([\d.]+x)\)", row)[0] for row in rows]
    assert named == [("g h", "3.0x"), ("c d", "2.5x"), ("i j", "1.60x"), ("a b", "1.10x")]
    assert "9 not tried" in text
    assert "x y" not in text


def test_what_could_not_have_mattered_is_only_counted() -> None:
    text = plan_verdict_text(plan())
    assert "3 not tried" in text
    assert "memory growth" not in text
    assert "all devices" not in text


def test_a_plan_without_predictions_names_what_there_was_no_time_for() -> None:
    text = plan_verdict_text(plan(steps=(*STEPS, skipped("cache", NO_TIME_REASON))))
    assert "Not tried    cache: no time left in the budget" in text


def test_plain_text_is_ascii_and_colour_comes_only_when_asked() -> None:
    odd = replace(FINDINGS[0], cause="serial_map", at="données.py:3", evidence="\x1b[2J")
    text = diagnosis_verdict_text(diagnosis(workload_diagnosis(findings=(odd,))))
    assert text.isascii()
    assert "\x1b" not in text
    assert "\x1b[" in plan_verdict_text(plan(), color=True, unicode=True)
    assert "\x1b" not in plan_verdict_text(plan(), color=False, unicode=True)


def test_the_script_s_arguments_are_typed_again() -> None:
    typed = replace(plan(), arguments=("--data", "my photos", "--epochs", "90"))
    text = plan_verdict_text(typed, 60)
    assert text.splitlines()[-1].endswith("train.py --data 'my photos' --epochs 90")
