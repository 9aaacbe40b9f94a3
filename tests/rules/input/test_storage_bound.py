from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.evidence.stage import FileReads
from uncork.core.evidence.storage import ColdFiles
from uncork.rules.input import storage_bound

WAITING = {"input": 0.8, "step": 0.2}


def found(files=40, read_s=0.06, *, cost_s=0.09, shares=None):
    reading = (
        None if files is None else FileReads(files_per_element=files, cpu_s_per_element=read_s)
    )
    load = stage(1, "map", cost_s, name="load", file_reads=reading)
    return list(storage_bound.find(observed(load, shares=shares or WAITING), MACHINE))


def test_opening_many_files_is_named_with_its_time():
    (finding,) = found()
    assert finding.cause == "storage_bound"
    assert finding.at == "train.py:21"
    assert finding.upper_bound == pytest.approx(0.1 / (0.09 - 0.06 * 39 / 40))
    for figure in ("40 files", "60 ms of 90 ms", "map(load)"):
        assert figure in finding.evidence


@pytest.mark.parametrize(
    "changes",
    [
        {"files": None},
        {"read_s": 0.001},
        {"cost_s": 0.0},
        {"shares": {"input": 0.05, "step": 0.95}},
    ],
)
def test_what_costs_little_is_left_alone(changes):
    assert found(**changes) == []


def from_disk(*, gigabytes=100, disk=150.0, measured=None):
    """A step that alone would be ten times as fast as the disk, or as fast as was measured."""
    files = ColdFiles(total_bytes=gigabytes * 10**9, read_s_per_file=0.01, read_bytes_per_s=5e7)
    source = stage(0, "from_tensor_slices", 0.0001, file_bytes=files.total_bytes)
    given = observed(source, shares=WAITING)
    speed = given.measurement.samples_per_s if measured is None else measured
    given = replace(
        given,
        cold_files=files,
        memory_available_bytes=20 * 10**9,
        measurement=replace(given.measurement, samples_per_s=speed),
        ceilings=given.ceilings | {"disk": disk, "consumer": 1_500.0},
    )
    return list(storage_bound.find(given, MACHINE))


def test_data_that_has_no_room_in_memory_is_as_fast_as_the_disk():
    (finding,) = from_disk()
    assert finding.cause == "storage_bound"
    assert finding.at == "train.py:20"
    assert finding.upper_bound == pytest.approx(10.0)
    for figure in ("100 GB", "20 GB", "50 MB/s", "150 samples/s"):
        assert figure in finding.evidence


@pytest.mark.parametrize(
    "changes",
    [
        {"gigabytes": 10},  # from the second epoch on it comes from memory
        {"disk": 0.0},
        {"disk": 1_490.0, "measured": 1_490.0},
        {"disk": 900.0, "measured": 300.0},  # something else is slower
    ],
)
def test_a_disk_that_keeps_up_is_left_alone(changes):
    assert from_disk(**changes) == []
