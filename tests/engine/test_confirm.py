"""Fresh processes have the last word: faked here, so that their figures are known."""

from __future__ import annotations

import itertools

import pytest

from records import MACHINE, measurement, plan
from uncork.core.job import Confirmation, Result
from uncork.core.plan import dump, load
from uncork.engine import confirm as confirming
from uncork.engine.processes import Script

WRITTEN = (600.0, 606.0, 597.0)


@pytest.fixture
def confirmed(monkeypatch):
    """Confirm a plan whose processes have these speeds, with the plan and without."""

    def run(planned):
        speeds = {False: itertools.cycle(WRITTEN), True: itertools.cycle(planned)}

        def child(job, script, follow, *, quiet):
            measured = measurement(next(speeds[job.plan is not None]))
            return Result(
                machine=MACHINE, confirmation=Confirmation(measurement=measured, first_epoch_s=None)
            )

        monkeypatch.setattr(confirming, "run_child", child)
        return confirming.confirm(plan(), Script("train.py"), lambda event: None)

    return run


def test_a_process_that_fails_says_why(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("raise FileExistsError('runs/exp1')")
    found = confirming.confirm(plan(), Script(str(script)), lambda event: None)
    (note,) = found.notes[len(plan().notes) :]
    assert "not confirmed" in note
    assert "FileExistsError: runs/exp1" in note


def test_a_faster_plan_stays_in_force(confirmed):
    found = confirmed((1200.0, 1212.0, 1191.0))
    assert found.speedup.verdict == "faster"
    assert found.kept == plan().kept


def test_a_plan_that_is_slower_is_withdrawn(confirmed):
    found = confirmed((400.0, 404.0, 396.0))
    assert found.edits == ()
    assert not found.kept
    assert found.tuned == found.baseline
    assert "slower, 0.67x" in found.notes[-1]
    rejected = [s for s in found.steps if "fresh processes" in s.reason]
    assert [s.name for s in rejected] == [s.name for s in plan().kept]
    assert load(dump(found)).edits == ()


def test_a_plan_of_which_nothing_is_proven_is_left_with_its_figures(confirmed):
    found = confirmed((400.0, 900.0, 640.0))
    assert found.speedup.verdict == "not_proven"
    assert found.kept == plan().kept
