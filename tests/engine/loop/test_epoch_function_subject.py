"""Loops inside a ``tf.function``: real scripts, measured, and run with another pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from plan_files import made_here
from records import STEPS, plan, workload_diagnosis
from running import Run, Write
from uncork.capture.base.listener import StepCall
from uncork.core.base.record import from_json, replace
from uncork.core.documents.diagnosis import Diagnosis
from uncork.core.documents.plan_file import serialize_plan
from uncork.core.edits.pipeline import Cache
from uncork.engine.loop.epoch_function_subject import (
    EpochFunctionRunner,
    EpochFunctionSubject,
    single_dataset_of,
)

SCRIPT = """
    import sys
    import keras, tensorflow as tf
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(8), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)

    def work(seed):
        noise = tf.random.stateless_normal((8_000,), tf.stack([seed, 1]))
        return tf.sort(noise)[::500], seed % 2

    data = tf.data.Dataset.range(240).map(work).batch(8).prefetch(1)

    @tf.function
    def train_epoch(batches):
        loss = tf.constant(0.0)
        for x, y in batches:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x)[:, 0] - tf.cast(y, tf.float32)) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    for epoch in range(int(sys.argv[1])):
        loss = train_epoch(data)
        print(f"epoch {epoch + 1}: loss {float(loss):.5f}", flush=True)
    """


@pytest.mark.deep
@pytest.mark.slow
def test_its_input_is_measured_and_edited(write: Write, uncork: Run, tmp_path: Path):
    path = write(SCRIPT)
    done = uncork("diagnose", "--budget", "2", "--json", "d.json", path, "100000")
    assert done.returncode == 0, done.stderr
    found = from_json((tmp_path / "d.json").read_bytes(), Diagnosis).workloads[0]
    assert found.workload.data_kind == "tf.data"
    assert (found.workload.batch_size, found.workload.steps_per_epoch) == (8, 30)
    named = [(finding.cause, finding.at) for finding in found.findings]
    assert found.is_inconclusive or named[0] == ("cache_missing", "train.py:13")
    kept = next(step for step in STEPS if step.outcome == "kept")
    edit = Cache(stage=1, expected_digest=found.workload.pipeline_digest)
    made = plan(
        before=workload_diagnosis(workload=found.workload, stages=()),
        after=None,
        steps=(replace(kept, name="cache", edits=(edit,), guarantee="exact"),),
    )
    (tmp_path / "plan.json").write_bytes(serialize_plan(made_here(made)))
    tuned = uncork("run", "--plan", "plan.json", path, "2")
    plain = uncork("run", "--no-plan", path, "2")
    assert (tuned.returncode, plain.returncode) == (0, 0), tuned.stderr + plain.stderr
    assert tuned.stdout == plain.stdout
    assert "uncork:" not in tuned.stderr


@pytest.mark.slow
def test_several_datasets_are_refused_aloud(write: Write, uncork: Run):
    text = SCRIPT.replace("def train_epoch(batches):", "def train_epoch(batches, others):")
    path = write(text.replace("train_epoch(data)", "train_epoch(data, data)"))
    done = uncork("diagnose", path, "3")
    assert done.returncode == 3, done.stderr
    assert "cannot be replaced" in done.stderr
    assert "one dataset among its arguments" in done.stderr


def subject(tmp_path: Path, dataset, seen: list[int]):
    @tf.function
    def train_epoch(batches, scale=1):
        total = tf.constant(0, tf.int64)
        for batch in batches:
            total += tf.size(batch, tf.int64)
        return total * scale

    def original(*args, **kwargs):
        seen.append(int(train_epoch(*args, **kwargs)))

    call = StepCall(0, "train.py:9", (dataset,), {"scale": 1}, original)
    return EpochFunctionSubject(call, epochs=None, scratch=str(tmp_path)), train_epoch


def test_steps_are_counted_where_the_batches_are_handed_out(tmp_path: Path):
    seen: list[int] = []
    made, function = subject(tmp_path, tf.data.Dataset.range(320).batch(4), seen)
    runner = made.runner(made.original)
    runner.prime()
    seen.clear()
    block = runner.block(2.0)
    assert block.samples == 4 * block.steps == sum(seen)
    assert block.steps % 80 == 0  # whole epochs
    resident = made.resident_runner(made.original)
    seen.clear()
    block = resident.block(0.05)  # it primes itself
    assert block.steps >= 16
    assert block.samples < seen[-1]  # its start is left out
    assert function.experimental_get_tracing_count() == 1
    assert made.workload.epochs == 2


def test_long_epochs_are_not_waited_for(tmp_path: Path):
    made, _ = subject(tmp_path, tf.data.Dataset.range(4).batch(2).repeat(), [])
    runner = made.runner(made.original)
    assert isinstance(runner, EpochFunctionRunner)
    runner.prime()
    assert 16 <= runner.block(0.02).steps < 1_000_000
    assert made.workload.steps_per_epoch is None


@pytest.mark.parametrize(
    "rows", [(tf.range(8),), {"a": tf.range(8)}, (tf.range(8), {"b": tf.range(8)})]
)
def test_elements_keep_their_structure(tmp_path: Path, rows):
    data = tf.data.Dataset.from_tensor_slices(rows).batch(2)
    specs = []

    def train(dataset):
        specs.append(str(dataset.element_spec))
        assert list(dataset)

    call = StepCall(0, "train.py:9", (data,), {}, train)
    made = EpochFunctionSubject(call, epochs=1, scratch=str(tmp_path))
    made.runner(made.original).prime()
    made.resident_runner(made.original).prime()
    assert set(specs) == {str(data.element_spec)}


def test_one_dataset_is_the_data():
    data = tf.data.Dataset.range(3)
    call = StepCall(0, "train.py:9", (data, 3), {}, print)
    assert single_dataset_of(call) is data
    assert single_dataset_of(StepCall(0, "train.py:9", (data,), {"valid": data}, print)) is None
