from __future__ import annotations

import msgspec
import pytest

from records import MACHINE, STEPS, WORKLOAD, measurement, workload_diagnosis
from uncork.core.base.record import from_json, to_json
from uncork.core.documents.job import Confirmation, Job, Result


def test_a_job_and_its_result_survive_the_file():
    job = Job(mode="tune", training=1, journal="/tmp/j", result="/tmp/r")
    assert from_json(to_json(job), Job) == job
    result = Result(
        machine=MACHINE,
        reached=(WORKLOAD,),
        before=workload_diagnosis(),
        steps=STEPS,
        confirmation=Confirmation(measurement=measurement(612.0), first_epoch_s=None),
        interrupted=True,
    )
    assert from_json(to_json(result), Result) == result


def test_an_unknown_mode_is_refused():
    with pytest.raises(msgspec.ValidationError, match="mode"):
        from_json(b'{"mode": "fly"}', Job)


def test_nothing_is_loose_unless_said():
    job = Job(mode="tune")
    assert job.policy.loosest == "precision"
