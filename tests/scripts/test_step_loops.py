"""Loops of the user's own over arrays and several datasets: real scripts, measured and stopped."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from running import Run, Write
from uncork.capture.base.listener import StepCall
from uncork.core.base.record import from_json
from uncork.core.documents.diagnosis import Diagnosis
from uncork.engine.loop.step_arguments import samples_of
from uncork.engine.loop.step_loop_subject import StepGaps
from uncork.engine.loop.unchanged_arrays import UnchangedArrayTracker
from uncork.engine.worker.list_job import SkippedStep

TRAINING = """
    import keras, numpy as np, tensorflow as tf
    keras.utils.set_random_seed(1)
    rows = np.random.random((4_000, 32)).astype("float32")
    sums = rows.sum(1, keepdims=True)
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam()

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss
    """
ARRAYS = """
    for epoch in range(10_000):
        for chosen in np.random.permutation(4_000).reshape(-1, 40):
            x = np.array([row * 1.0 for row in rows[chosen] for _ in range(250)])[::250]
            loss = train_step(x, sums[chosen])
    print("trained to the end")
    """
BY_HAND = """
    def train_step(x, y):
        x = x.astype("float32").clip(-3, 3)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss
    """
ZIPPED = """
    parts = [tf.data.Dataset.from_tensor_slices(part).batch(40) for part in (rows, sums)]
    for epoch in range(10_000):
        for x, y in zip(*parts, strict=True):
            loss = train_step(x, y)
    print("trained to the end")
    """


def a_call(*args, **kwargs):
    return StepCall(0, "train.py:9", args, kwargs, lambda *_, **__: None)


@pytest.mark.slow
@pytest.mark.deep
def test_the_python_of_a_loop_over_arrays_is_found_at_its_step(write: Write, uncork: Run, tmp_path):
    script = write(TRAINING + ARRAYS)
    step = script.read_text().splitlines().index("        loss = train_step(x, sums[chosen])") + 1
    loader = ("python_loader", f"train.py:{step}")
    for _ in range(3):  # on a busy machine a short look may find nothing, or something else first
        done = uncork("diagnose", "--budget", "3", "--json", "d.json", script)
        assert done.returncode == 0, done.stderr
        assert "trained to the end" not in done.stdout
        found = from_json((tmp_path / "d.json").read_bytes(), Diagnosis).workloads[0]
        named = [(finding.cause, finding.at) for finding in found.findings]
        if named[:1] == [loader]:
            break
    assert found.workload.at == f"train.py:{step}"
    assert (found.workload.kind, found.workload.batch_size) == ("custom_loop", 40)
    assert found.is_inconclusive or named[:1] == [loader]


@pytest.mark.slow
def test_several_datasets_in_one_loop_stay_together(write: Write, uncork: Run, tmp_path):
    done = uncork("diagnose", "--budget", "2", "--json", "d.json", write(TRAINING + ZIPPED))
    assert done.returncode == 0, done.stderr
    found = from_json((tmp_path / "d.json").read_bytes(), Diagnosis).workloads[0]
    assert found.workload.batch_size == 40
    assert sum(found.breakdown.values()) == pytest.approx(1.0)


@pytest.mark.slow
def test_an_eager_step_gets_arrays_and_is_named_with_its_function(
    write: Write, uncork: Run, tmp_path
):
    """It gets them as it does from its loop: a tensor has no astype."""
    head, compiled, _ = TRAINING.partition("    @tf.function\n")
    assert compiled
    script = write(head + BY_HAND + ARRAYS)
    begins = script.read_text().splitlines().index("def train_step(x, y):") + 1
    eager = ("eager_step", f"train.py:{begins}")
    for _ in range(3):  # on a busy machine a short look may find what is around it alone
        done = uncork("diagnose", "--budget", "3", "--json", "d.json", script)
        assert done.returncode == 0, done.stderr
        found = from_json((tmp_path / "d.json").read_bytes(), Diagnosis).workloads[0]
        named = [(finding.cause, finding.at) for finding in found.findings]
        if eager in named:
            break
    assert found.workload.is_eager_step
    assert found.is_inconclusive or eager in named


@pytest.mark.slow
def test_tune_has_nothing_to_edit_in_it(write: Write, uncork: Run):
    done = uncork("tune", "--budget", "20", write(TRAINING + ARRAYS))
    assert done.returncode == 0, done.stderr
    assert "leaves it unmodified" in done.stdout


@pytest.mark.slow
def test_it_is_listed(write: Write, uncork: Run):
    done = uncork("diagnose", "--list", write(TRAINING + ARRAYS.replace("10_000", "2")))
    assert done.returncode == 0, done.stderr
    assert "custom loop" in done.stdout


def test_a_step_without_a_result_is_skipped_as_well():
    ran = []
    call = StepCall(0, "train.py:9", (), {}, lambda: ran.append("a step"))
    skipped = SkippedStep()
    assert [skipped(call) for _ in range(3)] == [None] * 3
    assert ran == ["a step"]


def test_pauses_between_epochs_are_not_part_of_a_step():
    between = StepGaps()
    assert all(between.add(wall_s=0.01, busy_s=0.005) for _ in range(5))
    assert not between.add(wall_s=0.4, busy_s=0.4)
    assert between.add(wall_s=0.05, busy_s=0.05)
    assert len(between.wall_s) == 6


@pytest.mark.parametrize(
    ("call", "samples"),
    [
        (a_call(np.zeros((40, 3)), np.zeros(40)), 40),
        (a_call(np.zeros((900, 3)), np.zeros(40)), 40),
        (a_call(x=tf.zeros((8, 2)), weights=np.zeros(8), classes=np.zeros(3)), 8),
        (a_call(0.1, "name"), None),
        (a_call(), None),
        (a_call({1: np.zeros(8), "x": np.zeros(8)}), None),  # keys without an order
    ],
)
def test_samples_of_a_step(call, samples):
    assert samples_of(call) == samples


LARGE = np.zeros((1_000, 300))


def kept(*calls):
    arrays = UnchangedArrayTracker(calls[0])
    for call in calls[1:]:
        arrays.update(call)
    return [stage.bytes_per_element for stage in arrays.stages()]


def test_an_array_that_is_handed_over_again_and_again_is_known():
    calls = [a_call(LARGE, np.arange(n, n + 8)) for n in range(3)]
    assert kept(*calls) == [LARGE.nbytes]


def test_arrays_of_other_numbers_are_batches():
    buffer = np.zeros((1_000, 300))
    arrays = UnchangedArrayTracker(a_call(buffer))
    buffer[:] = 1.0  # filled anew, in place
    arrays.update(a_call(buffer))
    assert arrays.stages() == ()
    assert kept(a_call(LARGE), a_call(LARGE.copy())) == []
    assert kept(a_call(LARGE), a_call()) == []
    assert kept(a_call(np.zeros(9)), a_call(np.zeros(9))) == []


SIGNED = """
    signature = [tf.TensorSpec((None, 32)), tf.TensorSpec((None, 1))]
    train_step = tf.function(train_step.python_function, input_signature=signature)
    rows, sums = rows.astype("float64"), sums.astype("float64")
    for epoch in range(10_000):
        for chosen in np.random.permutation(4_000).reshape(-1, 40):
            loss = train_step(rows[chosen], sums[chosen])
    """
GIVEN_THE_ITERATOR = """
    @tf.function
    def many(iterator):
        return train_step(*next(iterator))
    data = tf.data.Dataset.from_tensor_slices((rows, sums)).batch(40)
    for epoch in range(10_000):
        iterator = iter(data)
        for _ in range(100):
            loss = many(iterator)
    """
IN_A_THREAD = """
    import queue, threading
    waiting = queue.Queue(4)
    def feed():
        for batch in tf.data.Dataset.from_tensor_slices((rows, sums)).batch(40).repeat():
            waiting.put(batch)
    threading.Thread(target=feed, daemon=True).start()
    for _ in range(1_000_000):
        loss = train_step(*waiting.get())
    """
BEHIND_IT = """
    data = tf.data.Dataset.from_tensor_slices((rows, sums)).batch(40).repeat()
    for _ in range(30):
        loss = train_step(rows[:40], sums[:40])
    model.compile("sgd", "mse")
    model.fit(data, steps_per_epoch=1_000, epochs=1_000_000, verbose=0)
    """


@pytest.mark.every(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("loop", "code", "said"),
    [
        (SIGNED, 0, "samples/s"),
        (IN_A_THREAD, 0, "samples/s"),
        (GIVEN_THE_ITERATOR, 3, "receives an iterator"),
        (BEHIND_IT, 3, "ended before it was measured"),
    ],
    ids=["a signature", "fed by a thread", "given the iterator", "another one behind it"],
)
def test_how_a_step_gets_its_batches(write: Write, uncork: Run, loop, code, said):
    done = uncork("diagnose", "--budget", "2", "--training", "0", write(TRAINING + loop))
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
