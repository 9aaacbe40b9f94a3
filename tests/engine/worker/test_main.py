from __future__ import annotations

import importlib

import pytest

from uncork.core.documents.job import HandoverJob, Job, PlanJob
from uncork.engine.worker.job_listener import JobListener
from uncork.engine.worker.main import LISTENERS


def test_each_job_has_a_listener():
    jobs = {*Job.__subclasses__(), *PlanJob.__subclasses__(), *HandoverJob.__subclasses__()}
    assert set(LISTENERS) == jobs - {PlanJob, HandoverJob}


@pytest.mark.parametrize("location", LISTENERS.values())
def test_a_listener_is_where_it_is_said_to_be(location):
    module, name = location.split(":")
    assert issubclass(getattr(importlib.import_module(module), name), JobListener)
