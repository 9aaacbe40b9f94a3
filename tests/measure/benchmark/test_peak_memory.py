from __future__ import annotations

import sys

import numpy as np
import pytest

from uncork.measure.benchmark.peak_memory import measure_peak_memory

MB = 1 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the height of a process")
def test_what_was_given_back_in_between_counts():
    with measure_peak_memory() as peak:
        held = np.ones(64 * MB, np.uint8)
        del held
    assert peak.added_bytes > 48 * MB


def test_an_error_on_the_way_is_the_caller_s():
    with pytest.raises(MemoryError), measure_peak_memory():
        raise MemoryError


def test_where_the_peak_so_far_cannot_be_forgotten_it_does_not_count(monkeypatch, tmp_path):
    """A process that had taken more before would seem to take nothing."""
    module, taken = sys.modules["uncork.measure.benchmark.peak_memory"], iter([100 * MB, 164 * MB])
    monkeypatch.setattr(module, "_FORGET", tmp_path)  # a folder, which nobody writes to
    monkeypatch.setattr(module, "_taken", lambda: next(taken))
    monkeypatch.setattr(module, "_highest", lambda: 900 * MB)
    with measure_peak_memory() as peak:
        pass
    assert (peak.added_bytes, peak.total_bytes) == (64 * MB, 164 * MB)
