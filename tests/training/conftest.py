from __future__ import annotations

from collections.abc import Iterator

import keras
import pytest
import tensorflow as tf


@pytest.fixture(autouse=True)
def _own_random_state() -> Iterator[None]:
    yield
    tf.random.set_seed(None)
    keras.backend.clear_session(free_memory=False)
