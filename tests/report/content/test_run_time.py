from __future__ import annotations

import pytest

from records import WORKLOAD, diagnosis, workload_diagnosis
from uncork.core.base.record import replace
from uncork.core.evidence.callbacks import CallbackCost, CheckpointCost, Validation
from uncork.core.evidence.loop import StartupLine
from uncork.report.content.run_time import run_parts
from uncork.report.html.page import diagnosis_html
from uncork.report.terminal.page import diagnosis_text

WORK = replace(WORKLOAD, steps_per_epoch=100, epochs=10)
STEP_S = workload_diagnosis().step_s
BESIDE = {
    "startup_lines": (
        StartupLine(at="train.py:3", seconds=4.0),
        StartupLine(at="train.py:5", seconds=2.0),
    ),
    "first_step_s": 3.0,
    "callbacks": (CallbackCost(name="Board", batch_s=0.001, epoch_s=0.3, at="train.py:9"),),
    "validation": Validation(
        validation_s=0.5, sample_count=9, validation_count=10, at="train.py:7"
    ),
    "checkpoint_cost": CheckpointCost(
        name="ModelCheckpoint",
        save_s=0.2,
        save_cpu_s=0.1,
        copy_s=0.1,
        copy_bytes=9,
        every_steps=100,
        trial_steps=9,
    ),
}


def parts(**found):
    return run_parts(workload_diagnosis(**{"workload": WORK, **found}))


def test_all_parts_of_a_run_add_up():
    found = parts(**BESIDE)
    assert sum(part.share for part in found) == pytest.approx(1.0)
    assert {part.label: part.seconds for part in found} == pytest.approx(
        {
            "before the training": 6.0,
            "tracing, the first step": 3.0,
            "waiting for input": 742 * STEP_S,
            "Python between steps": 21 * STEP_S,
            "1,000 steps": 228 * STEP_S,
            "unexplained, within noise": 9 * STEP_S,
            "Board, each batch": 1.0,
            "Board, each epoch": 3.0,
            "10 validations": 5.0,
            "10 saves by ModelCheckpoint": 2.0,
        }
    )
    assert found[0].at == "train.py:3"


def test_what_is_too_little_for_a_row_is_told_as_one():
    found = parts(**{**BESIDE, "callbacks": (CallbackCost(name="Board", batch_s=1e-6),)})
    assert found[-1].label == "everything else"
    assert sum(part.share for part in found) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "found",
    [{}, {"first_step_s": 0.01}, {**BESIDE, "workload": replace(WORK, steps_per_epoch=None)}],
)
def test_where_steps_are_nearly_all_or_nobody_knows_nothing_is_shown(found):
    assert parts(**found) == ()


def test_a_report_shows_them():
    found = diagnosis(workload_diagnosis(workload=WORK, **BESIDE))
    for shown in (diagnosis_text(found), diagnosis_html(found)):
        assert "The whole run" in shown
        assert "10 saves by ModelCheckpoint" in shown


def test_a_checkpoint_by_batches_counts_once():
    often = replace(BESIDE["checkpoint_cost"], is_save_best_only=True)
    acting = CallbackCost(name="ModelCheckpoint", batch_s=0.002, action_s=0.2)
    labels = [
        part.label for part in parts(**{**BESIDE, "checkpoint_cost": often, "callbacks": (acting,)})
    ]
    assert "at most 10 saves by ModelCheckpoint" in labels
    assert not any("each batch" in label for label in labels)


def test_of_one_call_of_many_no_whole_is_told():
    assert parts(**{**BESIDE, "workload": replace(WORK, is_fit_in_loop=True)}) == ()


def test_of_a_loop_without_a_known_end_an_epoch_is_told():
    work = replace(WORK, is_epoch_count_assumed=True)
    labels = [part.label for part in parts(**{**BESIDE, "workload": work})]
    assert "100 steps" in labels
    assert not any("before the training" in label for label in labels)
    found = diagnosis(workload_diagnosis(**{**BESIDE, "workload": work}))
    assert "One epoch" in diagnosis_text(found)
    assert "One epoch" in diagnosis_html(found)
