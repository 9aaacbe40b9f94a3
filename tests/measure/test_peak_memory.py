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
