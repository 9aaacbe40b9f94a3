"""Values that are read before they are there."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final

import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import ops

from uncork.measure.profile.host_sync import observe_host_waits

SLOW_S: Final = 0.05


@pytest.fixture
def slow(asynchronous: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[tf.Tensor]:
    """A value that is there 50 ms after somebody began to read it, however busy the machine is."""
    read, values = ops._EagerTensorBase._numpy, tf.queue.FIFOQueue(1, [tf.float32], shapes=[()])

    def give() -> None:
        values.enqueue(1.0)

    def reading(tensor: Any) -> Any:
        threading.Timer(SLOW_S, give).start()
        return read(tensor)

    value = values.dequeue()
    monkeypatch.setattr(ops._EagerTensorBase, "_numpy", reading)
    yield value
    values.close(cancel_pending_enqueues=True)  # where nobody has read it, nothing waits for ever
    with suppress(tf.errors.OpError):
        context.async_wait()  # the queue is there until it is closed


@pytest.mark.parametrize(("took_s", "waited_s"), [(25e-6, 0.0), (100e-6, 100e-6)])
def test_what_is_there_already_is_not_waited_for(
    took_s: float, waited_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a fake clock that each look at it moves by as much as a reading is to take."""
    looks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: took_s * next(looks))
    monkeypatch.setattr("uncork.measure.profile.host_sync.time", clock)
    with observe_host_waits() as found:
        assert float(tf.constant(2.0)) == 2.0
    assert found.seconds == pytest.approx(waited_s)
    assert (found.at is None) == (waited_s == 0.0)


def test_a_value_that_is_still_computed_is(slow: tf.Tensor) -> None:
    begin = time.perf_counter()
    with observe_host_waits() as found:
        value = float(slow)
    whole_s = time.perf_counter() - begin
    assert value == 1.0
    assert SLOW_S <= found.seconds <= whole_s
    assert found.at is not None
    assert found.at.rpartition(":")[0].endswith("test_host_sync.py")


def test_what_other_threads_wait_for_does_not_count(slow: tf.Tensor) -> None:
    values = []
    with observe_host_waits() as found:
        reader = threading.Thread(target=lambda: values.append(float(slow)))
        reader.start()
        reader.join()
    assert values == [1.0]
    assert found.seconds == 0.0


def test_reading_is_as_it_was_afterwards() -> None:
    before = ops._EagerTensorBase._numpy
    with pytest.raises(ValueError, match="own"), observe_host_waits():
        raise ValueError("the user's own")
    assert ops._EagerTensorBase._numpy is before
