from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.rules import array_copies


def found(*stages):
    diagnosis = observed(*stages, shares={"input": 0.6, "step": 0.4})
    return list(array_copies.find(diagnosis, MACHINE))


def test_arrays_copied_at_each_step_are_named():
    (finding,) = found(stage(0, "loop"), stage(1, "convert", 0.05, bytes_per_element=80_000_000))
    assert finding.cause == "array_copies"
    assert finding.at == "train.py:21"
    assert finding.upper_bound == pytest.approx(2.0)
    assert "80 MB" in finding.evidence
    assert "50 ms of 100 ms" in finding.evidence


def test_small_ones_are_not():
    assert found(stage(0, "loop", 0.05), stage(1, "convert", 0.005)) == []
    assert found(stage(0, "loop", 0.05)) == []
