from __future__ import annotations

import msgspec
import pytest

from records import MACHINE, STEPS, WORKLOAD, measurement, workload_diagnosis
from uncork.core.base.record import from_json, to_json
from uncork.core.documents.job import Confirmation, JobResult, TuneJob, read_job


def test_a_job_and_its_result_survive_the_file():
    job = TuneJob(training_index=1, journal_path="/tmp/j", result_path="/tmp/r")
    assert read_job(to_json(job)) == job
    result = JobResult(
        machine=MACHINE,
        reached_workloads=(WORKLOAD,),
        before=workload_diagnosis(),
        steps=STEPS,
        confirmation=Confirmation(measurement=measurement(612.0), first_epoch_s=None),
        is_interrupted=True,
    )
    assert from_json(to_json(result), JobResult) == result


def test_an_unknown_mode_is_refused():
    with pytest.raises(msgspec.ValidationError, match="mode"):
        read_job(b'{"mode": "fly"}')


def test_a_field_of_another_mode_is_refused():
    with pytest.raises(msgspec.ValidationError, match="timeline_folder"):
        read_job(b'{"mode": "list", "timeline_folder": "traces"}')


def test_nothing_is_loose_unless_said():
    job = TuneJob()
    assert job.policy.loosest_guarantee == "precision"
