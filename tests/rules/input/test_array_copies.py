from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.evidence.stage import ArrayCopy
from uncork.rules.input import array_copies


def found(*stages):
    diagnosis = observed(*stages, shares={"input": 0.6, "step": 0.4})
    return list(array_copies.find(diagnosis, MACHINE))


def test_arrays_copied_at_each_step_are_named():
    (finding,) = found(stage(0, "loop"), stage(1, "convert", 0.05, bytes_per_element=80_000_000))
    assert finding.cause == "array_copies"
    assert finding.at == "train.py:21"
    assert finding.upper_bound == pytest.approx(2.0)
    assert "80 MB" in finding.evidence
    assert "50 ms of a 100 ms step" in finding.evidence


def test_what_remains_is_the_step_by_itself():
    (finding,) = found(stage(0, "loop"), stage(1, "convert", 0.099, bytes_per_element=80_000_000))
    assert finding.upper_bound == pytest.approx(0.1 / 0.04)


WHOLE = ArrayCopy(at="data.py:46", share=0.9, copied_bytes=100_000_000, batch_bytes=1_000_000)


def test_a_loader_that_copies_whole_arrays_is_named_at_its_statement():
    (finding,) = found(
        stage(0, "pydataset", 0.1, parallelism=1, has_python_code=True, array_copy=WHOLE)
    )
    assert finding.cause == "array_copies"
    assert finding.at == "data.py:46"
    assert finding.upper_bound == pytest.approx(0.1 / 0.04)  # then the step itself is all there is
    for figure in ("100 MB", "1 MB", "90%", "100 ms"):
        assert figure in finding.evidence


def test_a_loader_that_does_so_in_no_time_is_not():
    quick = replace(WHOLE, share=0.05)
    assert (
        found(stage(0, "pydataset", 0.1, parallelism=1, has_python_code=True, array_copy=quick))
        == []
    )


def test_small_ones_are_not():
    assert found(stage(0, "loop", 0.05), stage(1, "convert", 0.005)) == []
    assert found(stage(0, "loop", 0.05)) == []
