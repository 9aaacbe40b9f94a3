"""Fresh processes have the last word: faked here, so that their figures are known."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from records import MACHINE, measurement, plan
from uncork.core.base.record import replace
from uncork.core.documents.job import MAX_FIRST_EPOCH_S as LIMIT_S
from uncork.core.documents.job import Confirmation, JobResult
from uncork.core.documents.plan_file import parse_plan, serialize_plan
from uncork.core.edits.edit import LoaderCache, ValidationInput
from uncork.core.edits.pipeline import Cache
from uncork.core.edits.step import MicroBatches
from uncork.core.evidence.callbacks import Validation
from uncork.engine.commands import confirm as confirming
from uncork.engine.process import worker_process as processes_of
from uncork.engine.process.worker_process import Script

WRITTEN = (600.0, 606.0, 597.0)
KEPT = plan().accepted_steps[0]
NEEDED = replace(KEPT, name="micro_batches", edits=(MicroBatches(parts=4),))
FED = ValidationInput(edits=(Cache(stage=1, expected_digest=""),), expected_digest="4f2a")


@pytest.fixture
def confirmed(monkeypatch):
    """Confirm a plan whose processes have these speeds, with the plan and without."""

    def run(planned, made=None, validation_s=(None, None)):
        speeds = {False: itertools.cycle(WRITTEN), True: itertools.cycle(planned)}

        def child(job, script, follow, *, quiet, prepared):
            ours = job.plan_path is not None
            found = Confirmation(
                measurement=measurement(next(speeds[ours])),
                first_epoch_s=None,
                validation_s=validation_s[ours],
            )
            return JobResult(machine=MACHINE, confirmation=found)

        monkeypatch.setattr(processes_of, "run_worker", child)
        return confirming.confirm(made or plan(), Script("train.py"), lambda event: None)[0]

    return run


def test_a_process_that_fails_says_why(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("raise FileExistsError('runs/exp1')")
    found, _ = confirming.confirm(plan(), Script(str(script)), lambda event: None)
    note, *others = found.notes
    assert tuple(others) == plan().notes
    assert "not confirmed" in note
    assert "FileExistsError: runs/exp1" in note


def test_a_faster_plan_stays_in_force(confirmed):
    found = confirmed((1200.0, 1212.0, 1191.0))
    assert found.speedup.verdict == "faster"
    assert found.accepted_steps == plan().accepted_steps


@pytest.mark.parametrize(
    ("first_s", "limits", "whole"),
    [
        (2.0, (LIMIT_S, LIMIT_S, LIMIT_S), (False, False, False)),
        (9.0, (LIMIT_S, 2.0, 2.0), (False, True, True)),  # what fills then does so in each
        (None, (LIMIT_S, 2.0, 2.0), (False, False, False)),
    ],
)
def test_a_long_first_epoch_is_waited_for_once(monkeypatch, first_s, limits, whole):
    waited = {False: [], True: []}

    def child(job, script, follow, *, quiet, prepared):
        waited[job.plan_path is not None].append((job.max_first_epoch_s, job.is_full_cache_fill))
        found = Confirmation(measurement=measurement(600.0), first_epoch_s=first_s)
        return JobResult(machine=MACHINE, confirmation=found)

    monkeypatch.setattr(processes_of, "run_worker", child)
    confirming.confirm(plan(), Script("train.py"), lambda event: None)
    asked = list(zip(limits, whole, strict=True))
    assert waited == {False: asked, True: asked}


@pytest.mark.parametrize(
    ("speeds", "verdict", "processes"),
    [
        ((1200.0, 1212.0), "faster", 4),
        ((700.0, 760.0, 720.0), "faster", 6),
        ((610.0, 590.0, 600.0), "not_proven", 6),  # nothing to be had
        ((620.0, 1000.0, 700.0, 910.0, 890.0), "faster", 10),
        ((500.0, 1000.0, 700.0, 900.0, 1400.0), "not_proven", 10),
    ],
)
def test_more_pairs_as_long_as_a_gain_is_left_open(confirmed, speeds, verdict, processes):
    found = confirmed(speeds)
    assert (found.speedup.verdict, found.speedup.n_processes) == (verdict, processes)


@pytest.mark.parametrize(("number", "complete"), [(3, False), (8, True)])
def test_an_interruption_loses_nothing_that_is_complete(monkeypatch, number, complete):
    speeds = {False: itertools.cycle(WRITTEN), True: itertools.cycle((620.0, 1000.0, 700.0))}
    begun = itertools.count(1)

    def child(job, script, follow, *, quiet, prepared):
        measured = measurement(next(speeds[job.plan_path is not None]))
        found = JobResult(
            machine=MACHINE, confirmation=Confirmation(measurement=measured, first_epoch_s=None)
        )
        return replace(found, is_interrupted=next(begun) == number)

    monkeypatch.setattr(processes_of, "run_worker", child)
    found, interrupted = confirming.confirm(plan(), Script("train.py"), lambda event: None)
    assert interrupted
    assert any("not confirmed" in note for note in found.notes) == (not complete)
    if complete:
        assert found.speedup.n_processes == 6
        assert found.speedup.verdict == "not_proven"


def test_what_runs_out_of_memory_elsewhere_is_not_confirmed(monkeypatch):
    answer = JobResult(machine=MACHINE, out_of_memory_error="OOM when allocating tensor")
    monkeypatch.setattr(processes_of, "run_worker", lambda *_, **__: answer)
    found, interrupted = confirming.confirm(plan(), Script("train.py"), lambda event: None)
    assert not interrupted
    assert "not confirmed in fresh processes: OOM when allocating" in found.notes[0]


def test_a_plan_that_is_slower_is_withdrawn(confirmed):
    found = confirmed((400.0, 404.0, 396.0))
    assert found.edits == ()
    assert not found.accepted_steps
    assert found.tuned == found.baseline
    assert "slower, 0.67x" in found.notes[0]
    rejected = [s for s in found.steps if "fresh processes" in s.reason]
    assert [s.name for s in rejected] == [s.name for s in plan().accepted_steps]
    assert parse_plan(serialize_plan(found)).edits == ()


def test_a_plan_of_which_nothing_is_proven_is_left_with_its_figures(confirmed):
    found = confirmed((400.0, 900.0, 640.0))
    assert found.speedup.verdict == "not_proven"
    assert found.accepted_steps == plan().accepted_steps


def validating(*steps, seconds=60.0, every=1):
    """A plan for six epochs of 312 steps of 32 samples, each with a validation."""
    before = plan().before
    workload = replace(before.workload, steps_per_epoch=312, epochs=6)
    found = Validation(
        validation_s=seconds, sample_count=100, every_epochs=every, validation_count=6 // every
    )
    return plan(
        before=replace(before, workload=workload, validation=found), steps=steps or plan().steps
    )


def test_validations_are_part_of_the_whole_training(confirmed):
    bare, all_in, seldom = (
        confirmed((1200.0, 1212.0, 1191.0), made, validation_s=(60.0, 60.0)).time_to_finish
        for made in (plan(), validating(), validating(every=2))
    )
    assert all_in.baseline_s - seldom.baseline_s == pytest.approx(3 * 60.0)
    assert all_in.tuned_s - seldom.tuned_s == pytest.approx(3 * 60.0)
    assert bare is None or bare.is_extrapolated
    assert all_in.is_extrapolated


def test_a_validation_that_is_fed_otherwise_has_its_own_figures(confirmed):
    step = replace(KEPT, edits=(FED,), is_for_validation=True)
    made = validating(step)
    found = confirmed(WRITTEN, made, validation_s=(60.0, 4.0))
    assert (found.validation_times.baseline_s, found.validation_times.tuned_s) == (60.0, 4.0)
    assert found.validation_times.speedup.verdict == "faster"
    assert found.speedup.verdict == "not_proven"
    assert found.accepted_steps, "no faster in its steps is no reason to withdraw it"
    times = found.time_to_finish
    assert times.baseline_s - times.tuned_s == pytest.approx(5 * 56.0), "the first one fills it"
    assert confirmed(WRITTEN, validating(), validation_s=(60.0, 4.0)).validation_times is None


@pytest.mark.parametrize("planned", [(400.0, 404.0, 396.0), (1200.0, 1212.0, 1191.0)])
def test_where_it_trains_as_before_other_speeds_are_noise(confirmed, planned):
    step = replace(KEPT, edits=(FED,), is_for_validation=True)
    found = confirmed(planned, validating(step), validation_s=(60.0, 4.0))
    assert found.accepted_steps
    assert found.speedup.verdict == "not_proven"


def test_a_validation_that_is_slower_is_withdrawn_by_itself(confirmed):
    step = replace(KEPT, edits=(FED,), is_for_validation=True)
    made = validating(step, *plan().accepted_steps)
    found = confirmed((1200.0, 1212.0, 1191.0), made, validation_s=(4.0, 60.0))
    assert not found.validation_edits
    assert found.accepted_steps == plan().accepted_steps
    assert "validation is slower" in found.notes[0]
    assert found.validation_times is None
    alone = confirmed(WRITTEN, validating(step), validation_s=(4.0, 60.0))
    assert not alone.accepted_steps
    assert alone.tuned == alone.baseline
    assert parse_plan(serialize_plan(found)).edits == plan().edits


def test_it_is_timed_where_it_matters():
    assert confirming._validates(validating())
    assert not confirming._validates(validating(seconds=0.01))
    assert not confirming._validates(plan())


def test_what_does_not_fit_as_written_is_only_seen_to_train(confirmed):
    found = confirmed((480.0,), plan(steps=(NEEDED,)))
    assert found.accepted_steps == (NEEDED,)
    assert found.baseline == found.tuned
    assert found.tuned.samples_per_s == 480.0
    assert (found.speedup.n_processes, found.speedup.verdict) == (1, plan().speedup.verdict)


def test_more_is_compared_with_the_training_in_parts(monkeypatch):
    asked, told = [], []

    def child(job, script, follow, *, quiet, prepared):
        asked.append(parse_plan(Path(job.plan_path).read_bytes()).edits)
        speed = (300.0, 600.0)[len(asked[-1]) > 1]
        found = Confirmation(measurement=measurement(speed), first_epoch_s=None)
        return JobResult(machine=MACHINE, confirmation=found)

    monkeypatch.setattr(processes_of, "run_worker", child)
    made = plan(steps=(NEEDED, KEPT))
    found, _ = confirming.confirm(made, Script("train.py"), told.append)
    assert asked == [made.edits if own else NEEDED.edits for own in (0, 1, 1, 0)]
    assert "fresh process 1, with micro-batches" in told[0].text
    assert found.baseline.samples_per_s == pytest.approx(300.0)


def test_a_slower_plan_is_withdrawn_but_for_what_it_needs(monkeypatch):
    monkeypatch.setattr(confirming._InTurn, "more", lambda *args: SLOWER)
    made = plan(steps=(NEEDED, KEPT))
    found, _ = confirming.confirm(made, Script("train.py"), lambda event: None)
    assert found.accepted_steps == (NEEDED,)


SLOWER = tuple(
    [Confirmation(measurement=measurement(speed), first_epoch_s=None) for speed in speeds]
    for speeds in (WRITTEN, [speed / 2 for speed in WRITTEN])
)


def test_batches_that_are_kept_are_made_in_the_first_epoch(confirmed):
    """A first epoch that is too long to be waited for is no faster for what it fills."""
    kept = replace(KEPT, edits=(LoaderCache(size_bytes=1 << 20, expected_digest="4f2a"),))
    made = plan(steps=(kept,))
    faster = confirmed((1200.0, 1212.0, 1191.0), made).time_to_finish
    epoch_s, epochs = faster.baseline_s / made.before.workload.epochs, made.before.workload.epochs
    assert faster.tuned_s == pytest.approx(epoch_s + (epochs - 1) * epoch_s / 2, rel=0.05)
