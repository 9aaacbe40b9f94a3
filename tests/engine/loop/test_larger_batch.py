"""A loop's step on a larger batch, where several replicas share it."""

from __future__ import annotations

import pytest
import tensorflow as tf

from uncork.capture.base.listener import StepCall
from uncork.engine.loop import step_loop_subject
from uncork.engine.loop.step_loop_subject import StepLoopSubject
from uncork.measure.benchmark.interleave import Block


@pytest.fixture
def subject() -> StepLoopSubject:
    step = tf.function(tf.reduce_sum)
    return StepLoopSubject(StepCall(0, "train.py:9", (tf.ones((4, 2)),), {}, step), epochs=3)


@pytest.fixture
def two_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_loop_subject, "replica_count", lambda layers: 2)


def test_one_replica_has_no_share_to_be_too_small(subject: StepLoopSubject) -> None:
    assert subject.larger_replica_batch_runner() is None


def test_a_larger_batch_counts_as_many_samples(
    subject: StepLoopSubject, two_replicas: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = subject.larger_replica_batch_runner()
    assert found is not None
    times, runner = found
    block = Block(steps=3, samples=12.0, wall_s=1.0, cpu_s=1.0, warmup_s=0.0)
    shapes = []

    def run(*_: object, **__: object) -> tuple[Block, None]:
        assert subject._other_call is not None
        shapes.append(tuple(subject._other_call.args[0].shape))
        return block, None

    monkeypatch.setattr(subject.driver, "block", run)
    assert runner.block(1.0).samples == 12.0 * times
    assert shapes == [(4 * times, 2)]
    assert subject._other_call is None  # it may be large


def test_a_step_whose_batch_is_no_argument_of_its_own_has_no_larger_one(two_replicas: None) -> None:
    step = tf.function(lambda rate: rate)
    for args in ((), (tf.constant(0.1),), (iter([1]),)):
        call = StepCall(0, "train.py:9", args, {}, step)
        assert StepLoopSubject(call, epochs=3).larger_replica_batch_runner() is None


def test_a_step_for_one_size_is_told_apart(
    subject: StepLoopSubject, two_replicas: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = subject.larger_replica_batch_runner()
    assert found is not None
    monkeypatch.setattr(subject, "rejection", lambda: ValueError("four rows"))
    monkeypatch.setattr(subject.driver, "block", lambda *args, **kwargs: (None, None))
    with pytest.raises(ValueError, match="four rows"):
        found[1].block(1.0)
