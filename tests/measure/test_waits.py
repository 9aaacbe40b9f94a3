"""Values that are read before they are there."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import ops

from uncork.measure.waits import waits


@pytest.fixture
def asynchronous() -> Iterator[None]:
    """As on an accelerator: Python goes on while ops run."""
    before = context.context().execution_mode
    context.context().execution_mode = context.ASYNC
    yield
    context.context().execution_mode = before


def slow() -> tf.Tensor:
    x = tf.ones((1500, 1500))
    for _ in range(8):
        x = tf.linalg.matmul(x, x) * 1e-4
    return tf.reduce_sum(x)


def test_what_is_there_already_is_not_waited_for() -> None:
    with waits() as found:
        assert float(tf.constant(2.0)) == 2.0
    assert (found.seconds, found.at) == (0.0, None)


def test_a_value_that_is_still_computed_is(asynchronous: None) -> None:
    begin = time.perf_counter()
    with waits() as found:
        value = slow()
        started_s = time.perf_counter() - begin
        _ = float(value)
    whole_s = time.perf_counter() - begin
    assert 0 < found.seconds <= whole_s - started_s
    assert found.seconds > 0.5 * (whole_s - started_s)
    assert found.at is not None
    assert found.at.rpartition(":")[0].endswith("test_waits.py")


def test_what_other_threads_wait_for_does_not_count(asynchronous: None) -> None:
    with waits() as found:
        reader = threading.Thread(target=lambda: float(slow()))
        reader.start()
        reader.join()
    assert found.seconds == 0.0


def test_reading_is_as_it_was_afterwards() -> None:
    before = ops._EagerTensorBase._numpy
    with pytest.raises(ValueError, match="own"), waits():
        raise ValueError("the user's own")
    assert ops._EagerTensorBase._numpy is before
