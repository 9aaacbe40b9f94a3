from __future__ import annotations

from collections.abc import Iterator

import keras
import pytest
import tensorflow as tf


@pytest.fixture(autouse=True)
def _own_random_state() -> Iterator[None]:
    """A global seed, set by an earlier test, would seed every op of this one."""
    tf.random.set_seed(None)
    yield
    tf.random.set_seed(None)
    keras.backend.clear_session(free_memory=False)


@pytest.fixture(autouse=True)
def _no_quiesce(no_quiesce: None) -> None:
    """Every test of this folder runs without waiting for a quiet machine."""
