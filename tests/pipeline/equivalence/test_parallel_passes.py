"""Who may be read at the same time, and that nothing is lost by it."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf

from uncork.pipeline.equivalence.digests import element_digests
from uncork.pipeline.equivalence.parallel_passes import are_independent, read_both
from uncork.pipeline.ir.tree import read_pipeline

RANGE = tf.data.Dataset.range(64)
STATE = tf.random.Generator.from_seed(1)


def generate():
    yield from range(3)


@pytest.mark.parametrize(
    ("dataset", "independent"),
    [
        (RANGE.shuffle(8).map(lambda x: x + 1).cache().batch(4), True),
        (RANGE.map(lambda x: tf.random.uniform(())), True),
        (RANGE.map(lambda x: tf.numpy_function(np.negative, [x], tf.int64)), False),
        (tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec([])), False),
        (RANGE.map(lambda x: STATE.uniform(())), False),
        (RANGE.cache("/nowhere/written"), False),
        (tf.data.Dataset.zip(RANGE, RANGE.cache("/nowhere/written")), False),
    ],
    ids=["graph", "draws", "Python", "generator", "variable", "files", "branch"],
)
def test_what_shares_nothing_is_independent(dataset, independent):
    assert are_independent(read_pipeline(RANGE), read_pipeline(dataset)) is independent


def test_both_run_at_the_same_time_and_give_the_same():
    met = threading.Barrier(2, timeout=60)

    def digests(dataset):
        met.wait()
        return element_digests(dataset)

    shuffled = [RANGE.shuffle(64, seed=3).map(lambda x: x * x).batch(4) for _ in range(2)]
    ours, theirs = read_both(*[lambda d=d: digests(d) for d in shuffled], parallel=True)
    assert ours.is_complete
    assert (
        ours == theirs == element_digests(RANGE.shuffle(64, seed=3).map(lambda x: x * x).batch(4))
    )


def test_an_error_of_either_is_raised():
    def fail():
        raise ValueError("broken")

    for both in ((fail, int), (int, fail)):
        with pytest.raises(ValueError, match="broken"):
            read_both(*both, parallel=True)
