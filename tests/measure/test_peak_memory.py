from __future__ import annotations

import sys

import numpy as np
import pytest

from uncork.measure import peak_memory

MB = 1 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the height of a process")
def test_what_was_given_back_in_between_counts():
    with peak_memory() as peak:
        held = np.ones(64 * MB, np.uint8)
        del held
    assert peak.bytes > 48 * MB


def test_an_error_on_the_way_is_the_caller_s():
    with pytest.raises(MemoryError), peak_memory():
        raise MemoryError


def test_where_the_peak_so_far_cannot_be_forgotten_it_does_not_count(monkeypatch, tmp_path):
    """A process that had taken more before would seem to take nothing."""
    before = np.ones(256 * MB, np.uint8)
    del before
    module = sys.modules["uncork.measure.peak_memory"]
    monkeypatch.setattr(module, "_FORGET", tmp_path)  # a folder, which nobody writes to
    with peak_memory() as peak:
        held = np.ones(64 * MB, np.uint8)
    del held
    assert 48 * MB < peak.bytes < 128 * MB
