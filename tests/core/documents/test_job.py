from __future__ import annotations

import msgspec
import pytest

from records import MACHINE, STEPS, WORKLOAD, measurement, workload_diagnosis
from uncork.core.base.record import from_json, to_json
from uncork.core.documents.job import Confirmation, Job, JobResult


def test_a_job_and_its_result_survive_the_file():
    job = Job(mode="tune", training_index=1, journal_path="/tmp/j", result_path="/tmp/r")
    assert from_json(to_json(job), Job) == job
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
        from_json(b'{"mode": "fly"}', Job)


def test_nothing_is_loose_unless_said():
    job = Job(mode="tune")
    assert job.policy.loosest_guarantee == "precision"
