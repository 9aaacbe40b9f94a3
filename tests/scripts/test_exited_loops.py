"""Loops that leave their data before its end: real scripts, measured and stopped."""

from __future__ import annotations

import pytest
import tensorflow as tf

from running import Run, Write
from uncork.core.base.record import from_json
from uncork.core.documents.diagnosis import Diagnosis
from uncork.pipeline.analysis.passes import is_repeated
from uncork.pipeline.ir.tree import read_pipeline

Dataset = tf.data.Dataset
RANGE = Dataset.range
SCRIPT = """
    import itertools, keras, tensorflow as tf
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.01)

    @tf.function
    def train_step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    rows = tf.data.Dataset.from_tensor_slices(tf.random.normal((640, 32)))
    stream = rows.map(lambda x: x * 2.0).repeat().batch(16).prefetch(400)
    for epoch in range(100_000):
        for x in itertools.islice(stream, 7):
            train_step(x)
    print("trained to the end")
    """


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (RANGE(8).repeat(2).batch(4), True),
        (Dataset.zip(RANGE(8).repeat(), Dataset.counter()), True),
        (Dataset.zip(RANGE(8), Dataset.from_tensors(0).repeat()), False),  # one pass over the range
        (Dataset.zip(RANGE(8), Dataset.counter()), False),
        (RANGE(8).batch(4), False),
    ],
)
def test_joined_data_is_read_again_where_no_part_of_it_ends_first(data, expected):
    assert is_repeated(read_pipeline(data)) is expected


@pytest.mark.slow
def test_an_epoch_ends_where_the_loop_is_left(write: Write, uncork: Run, tmp_path):
    done = uncork("diagnose", "--budget", "2", "--json", "d.json", write(SCRIPT))
    assert done.returncode == 0, done.stderr
    assert "trained to the end" not in done.stdout
    found = from_json((tmp_path / "d.json").read_bytes(), Diagnosis).workloads[0]
    assert found.workload.steps_per_epoch == 7
    prefetch = found.stages[-1]
    assert (prefetch.kind, prefetch.prefetched_elements, prefetch.length) == ("prefetch", 400, -1)
    assert "cache_missing" not in [f.cause for f in found.findings]  # it would never be complete
