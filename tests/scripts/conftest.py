from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_quiesce(no_quiesce: None) -> None:
    """Every test of this folder runs without waiting for a quiet machine."""
