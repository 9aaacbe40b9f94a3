from __future__ import annotations

import io
import math

import pytest

from records import (
    FINDINGS,
    KERNELS,
    STAGES,
    STEPS,
    TRAP,
    diagnosis,
    empty_plan,
    healthy_diagnosis,
    measurement,
    plan,
    workload_diagnosis,
)
from uncork.core.base.measurement import Spread
from uncork.core.base.record import replace
from uncork.report.terminal.page import bar_cells, diagnosis_text, plan_text
from uncork.report.terminal.text import detect_style

CROWDED = workload_diagnosis(
    stages=tuple(replace(STAGES[n % 5], index=n) for n in range(15)),
    findings=(TRAP, *FINDINGS, *FINDINGS),
    notes=("a note",) * 5,
    kernels=KERNELS * 3,
)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_diagnosis_says_the_verdict_first_and_the_command_last():
    lines = diagnosis_text(diagnosis()).splitlines()
    assert lines[0] == "train.py:41 trains 612 samples/s; this machine could train 2,480 (4.1x)."
    assert lines[1] == "Bottleneck: stateful_serial_map at train.py:23."
    assert lines[-1] == "Next: uncork tune train.py"


def test_diagnosis_shows_bottleneck_line_and_remedy():
    text = diagnosis_text(diagnosis())
    neck = next(line for line in text.splitlines() if "< bottleneck" in line)
    assert "map load_and_augment" in neck
    assert "645/s" in neck
    assert "train.py:23" in neck
    assert "> split it: decode and resize in parallel, flip afterwards" in text


def test_the_kernels_of_a_step_are_told_with_whose_they_are():
    text = diagnosis_text(diagnosis(workload_diagnosis(kernels=KERNELS)))
    first, second = (line for line in text.splitlines() if "Conv2DB" in line or "TensorL" in line)
    assert "Conv2D backward" in first
    assert "train.py:29" in first
    assert "52 %" in first
    assert "1,920" in second
    assert "Training step" not in diagnosis_text(diagnosis())


def test_a_costly_map_shows_its_ops_below_it():
    lines = diagnosis_text(diagnosis()).splitlines()
    number = next(n for n, text in enumerate(lines) if "map load_and_aug" in text)
    assert {"DecodeJpeg", "56", "train.py:15"} <= set(lines[number + 1].split())


def test_health_is_said_plainly_with_its_evidence():
    text = diagnosis_text(diagnosis(healthy_diagnosis()))
    assert "Healthy: nothing worth doing." in text
    assert "the input is ready 99 % of the time" in text


def test_plan_shows_each_tried_step_and_what_was_not_tried():
    text = plan_text(plan(), path="out/plan.json")
    assert "+ split map" in text
    assert "x mixed bfloat16" in text
    assert "larger batch" in text
    assert text.splitlines()[-1] == "Next: uncork run --plan out/plan.json train.py"


@pytest.mark.parametrize("draw", [
    lambda width: diagnosis_text(diagnosis(), width),
    lambda width: diagnosis_text(diagnosis(CROWDED), width),
    lambda width: plan_text(plan(), width),
    lambda width: plan_text(plan(steps=STEPS * 4), width),
    lambda width: plan_text(empty_plan(), width),
])  # fmt: skip
@pytest.mark.parametrize("width", [72, 80, 100, 160])
def test_text_fits_the_screen(draw, width):
    lines = draw(width).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= (45 if width >= 100 else 51)


def test_plain_text_is_ascii_whatever_the_names():
    odd = replace(STAGES[2], name="größe_名", at="données.py:3")
    text = diagnosis_text(diagnosis(workload_diagnosis(stages=(odd,))))
    assert text.isascii()
    assert "\x1b" not in text


def test_colour_and_unicode_only_when_asked():
    assert "\x1b[" in diagnosis_text(diagnosis(), color=True, unicode=True)
    plain = diagnosis_text(diagnosis(), color=False, unicode=True)
    assert "\x1b[" not in plain
    assert "█" in plain


def test_names_cannot_steer_the_terminal():
    evil = replace(FINDINGS[0], evidence="\x1b]0;owned\x07 [red]x[/red]", at="\x1b[2Ja.py:1")
    stage = replace(STAGES[2], name="f\x1b[31m\r")
    evil_one = workload_diagnosis(findings=(evil,), stages=(stage,), notes=("\x07\x1b[5m",))
    text = diagnosis_text(diagnosis(evil_one, script="\x1b[8m.py"), color=False, unicode=True)
    assert not {"\x1b", "\x07", "\r"} & set(text)
    assert "[red]x[/red]" in text


def test_missing_and_infinite_figures_are_unknown():
    blank = tuple(
        replace(stage, cpu_s_per_element=None, wall_s_per_element=math.nan, bytes_per_element=None)
        for stage in STAGES
    )
    single = replace(measurement(5), step_s=Spread(median=6.4, low=0.0, high=math.inf, n=1))
    odd = workload_diagnosis(
        stages=blank,
        measurement=single,
        ceilings={"consumer": math.inf},
        headroom=math.nan,
        breakdown={"unknown": 1.0},
    )
    text = diagnosis_text(diagnosis(odd))
    assert "unknown" in text
    assert not {"nan", "inf"} & set(text.replace("/", " ").split())


def test_nothing_measured_at_all_still_draws():
    empty = workload_diagnosis(stages=(), findings=(), breakdown={}, ceilings={}, notes=())
    assert diagnosis_text(diagnosis(empty)).splitlines()[-1] == "Next: python train.py"


def test_look_follows_the_stream():
    assert detect_style(io.StringIO()) == (100, False, False)
    assert detect_style(Terminal(), columns=88) == (88, True, True)


def test_look_falls_back_to_ascii_for_old_encodings():
    class Latin(Terminal):
        encoding = "latin-1"

    assert detect_style(Latin()) == (100, True, False)


def test_bars_neither_hide_nor_overflow():
    assert bar_cells([0.98, 0.01, 0.01], 10) == [8, 1, 1]
    assert bar_cells([], 10) == []
    assert bar_cells([0.5, 0.5], 1) == [0, 0]


@pytest.mark.parametrize("draw", [diagnosis_text, plan_text])
def test_the_next_command_can_be_copied_whole(draw):
    """A line that was broken for the screen would run without the arguments behind it."""
    given = ["--data", "/data/imagenet/train", "--epochs", "90", "--batch-size", "256", "--name=x"]
    record = diagnosis() if draw is diagnosis_text else plan()
    last = draw(replace(record, arguments=tuple(given)), 60).splitlines()[-1]
    assert last.startswith("Next: uncork")
    assert last.endswith(" ".join(given))


def test_notes_that_are_left_out_are_counted():
    text = diagnosis_text(diagnosis(CROWDED))
    assert text.count("Note: ") == 2
    assert "(3 more notes in the HTML report)" in text


def test_what_is_in_force_is_shown_before_what_was_only_tried():
    tried = [s for s in STEPS if s.outcome == "rejected"]
    kept = next(s for s in STEPS if s.outcome == "kept")
    steps = (*tried * 6, replace(kept, name="kept_last"))
    assert len(steps) > 10
    assert "kept last" in plan_text(plan(steps=steps))
