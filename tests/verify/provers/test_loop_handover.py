"""A loop that is trained again in another process: the same calls of its step, the same state."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from records import STEPS, plan, workload_diagnosis
from running import run_in_folder
from uncork.capture.script import run_script
from uncork.core.base.journal import Journal
from uncork.core.base.record import replace
from uncork.core.documents.job import JobResult, ProcessJob, TuneJob
from uncork.core.documents.plan import Plan
from uncork.core.documents.plan_file import serialize_plan
from uncork.core.edits.edit import KeepFreedMemory
from uncork.engine.loop.step_switch import StepSwitch
from uncork.engine.process.worker_process import Script, run_worker
from uncork.engine.worker.job_listener import JobListener
from uncork.measure.machine.devices import accelerators
from uncork.training.loop_step.compiled_step import CompiledStep
from uncork.training.loop_step.eager_step import EagerStep
from uncork.training.loop_step.loop_step import InterceptedStep
from uncork.training.loop_step.mode import StepMode
from uncork.training.variant import Variant
from uncork.verify.provers import handover as limits
from uncork.verify.provers.handover import Handover, LoopHandover
from uncork.verify.provers.loop_handover import prove_loop_handover, record_loop_handover
from uncork.verify.provers.recorded_calls import state_of_step


class Training:
    """Fits a line, with dropout, by steps that get all kinds of values."""

    def __init__(self, *, drop: float = 0.2, width: int = 16, compiled: bool = True) -> None:
        keras.utils.set_random_seed(1)
        layers = [keras.layers.Dense(width, "relu"), keras.layers.Dropout(drop, seed=3)]
        self.model = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dense(1)])
        self.optimizer = keras.optimizers.Adam(0.02)
        self.optimizer.build(self.model.trainable_variables)
        self.taken: InterceptedStep
        if compiled:
            step = tf.function(train_step)
            self.taken = CompiledStep(step)
        else:
            self.taken = EagerStep(train_step)
            step = self.taken
        self.taken.is_recording = self.taken.is_examined = True
        rng = np.random.default_rng(0)
        for n in range(6):
            x = rng.normal(size=(64, 8)).astype("float32")
            y = tf.constant(x.sum(1, keepdims=True))
            words = tf.ragged.constant([["a"], [f"b{n}", "c"]])
            step(self.model, self.optimizer, x, y, scale=0.5, words=words)

    def weights(self) -> list[Any]:
        return [np.asarray(value) for value in self.model.get_weights()]

    def close(self) -> None:
        self.taken.restore()


def train_step(model, optimizer, x, y, scale, words):
    with tf.GradientTape() as tape:
        loss = scale * tf.reduce_mean((y - model(x, training=True)) ** 2)
        loss += 0.0 * tf.cast(tf.strings.length(words.flat_values)[0], tf.float32)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@pytest.fixture(scope="module", params=[True, False], ids=["compiled", "eager"])
def there(request) -> tuple[bool, LoopHandover]:
    """What a process has left, as it comes out of a file."""
    training = Training(compiled=request.param)
    before = training.weights()
    handed = record_loop_handover(training.taken)
    for now, then in zip(training.weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)
    training.close()
    assert not handed.refusal_reason
    return request.param, pickle.loads(pickle.dumps(handed))


def judged(handed: LoopHandover, mode: StepMode = StepMode.ORIGINAL, **of: Any) -> Any:
    training = Training(**of)
    try:
        return prove_loop_handover(training.taken, mode, handed)
    finally:
        training.close()


@pytest.mark.every(2)
def test_the_same_training_is_the_same_elsewhere(there):
    compiled, handed = there
    keras.utils.set_random_seed(99)
    proof = judged(handed, compiled=compiled)
    assert proof.passed, proof.detail
    assert proof.kind == "exact" or accelerators()  # those add up in any order


def test_another_one_is_not(there):
    compiled, handed = there
    assert not judged(handed, compiled=compiled, drop=0.201).passed
    order = [handed.order[1], handed.order[0], *handed.order[2:]]
    assert not judged(dataclasses.replace(handed, order=order), compiled=compiled).passed


def test_a_step_that_runs_otherwise_there_is_asked_so(there):
    """As a graph the eager step comes to the same within rounding, or exactly."""
    compiled, handed = there
    mode = StepMode.ANY_SHAPE if compiled else StepMode.GRAPH
    proof = judged(handed, mode, compiled=compiled)
    assert proof.passed, proof.detail


def test_what_does_not_fit_is_told(there):
    compiled, handed = there
    if compiled:
        other = judged(handed, width=17)
        assert not other.passed
        assert other.detail == "the step has other variables in another process"
        more = dataclasses.replace(handed, calls=[[*handed.calls[0], ("value", 1)]] * 6)
        assert (
            judged(more).detail == "the step gets 7 values in this process, and 8 in the other one"
        )
    refused = dataclasses.replace(handed, refusal_reason="too large")
    assert judged(refused, compiled=compiled).detail == "too large"


def test_a_step_that_does_not_repeat_itself_is_not_handed_over():
    """It draws numbers that nobody can set: any band would be theirs."""
    weight, optimizer = tf.Variable([1.0, 2.0]), keras.optimizers.SGD(0.1)
    optimizer.build([weight])

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight * x * tf.random.uniform((2,)))
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
        return loss

    taken = CompiledStep(step)
    taken.is_recording = taken.is_examined = True
    for _ in range(4):
        step(tf.ones(2))
    found = record_loop_handover(taken)
    taken.restore()
    assert found.refusal_reason == "two runs of the step itself differ"
    assert not found.runs


def test_all_that_calls_of_a_step_change_is_compared():
    """Two networks in turn: what only the second call's form touches is in the state, too."""
    first, second = tf.Variable(1.0), tf.Variable(2.0)

    @tf.function
    def step(x, which):
        (first if which == "first" else second).assign_add(x)
        return x

    taken = CompiledStep(step)
    taken.is_recording = taken.is_examined = True
    for which in ("first", "second") * 2:
        step(tf.constant(1.0), which)
    state = state_of_step(taken)
    assert [float(value) for value in state.current_values()] == [3.0, 4.0]
    step(tf.constant(5.0), "second")
    state.restore()
    taken.restore()
    assert (float(first), float(second)) == (3.0, 4.0)


def test_what_is_too_large_is_not_handed_over(monkeypatch):
    monkeypatch.setattr(limits, "_MOST_BYTES", 100)
    training = Training()
    found = record_loop_handover(training.taken)
    training.close()
    assert found.refusal_reason == "its state is too large to be passed to another process"
    assert not found.runs


def test_where_no_step_is_known_there_is_nothing_to_hand_over(there):
    _, handed = there
    switch = StepSwitch(None)
    assert switch.record_handover(lambda: None, lambda: None) is None
    proof = switch.prove_in_other_process(Variant(None), handed, lambda: None, lambda: None)
    assert not proof.passed
    step = CompiledStep(tf.function(train_step))
    assert record_loop_handover(step).refusal_reason == "no call of the step was recorded"
    step.restore()


TRAIN = """
import keras, numpy as np, tensorflow as tf

keras.utils.set_random_seed(5)
x = np.random.default_rng(1).normal(size=(2048, 8)).astype("float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(64, "tanh"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()

@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

"""
DATASET = """
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(2048, seed=3).batch(64)
for epoch in range(100_000):
    for a, b in data:
        train_step(a, b)
"""
ARRAYS = """
for epoch in range(100_000):
    for rows in np.random.permutation(2048).reshape(-1, 64):
        train_step(x[rows], y[rows])
"""


class Handing(JobListener):
    """Leaves a plan, and what a tuning would hand over, for the loop of a script."""

    def run_on(self, subject: Any, machine: Any) -> JobResult:
        handed = subject.record_handover(subject.original, 0.0)
        handed.write(Path("handed_over"))
        before = workload_diagnosis(workload=subject.observed_workload(), stages=())
        kept = next(step for step in STEPS if step.outcome == "kept")
        step = replace(kept, name="keep_freed_memory", edits=(KeepFreedMemory(),))
        made: Plan = plan(before=before, after=None, steps=(step,))
        Path("plan.json").write_bytes(serialize_plan(made))
        return JobResult(machine=machine)


@pytest.mark.every(2)
@pytest.mark.slow
@pytest.mark.parametrize("loop", [DATASET, ARRAYS], ids=["dataset", "arrays"])
def test_a_loop_is_proved_and_timed_in_a_process_of_its_own(loop, tmp_path, monkeypatch):
    made = run_in_folder(tmp_path, TRAIN + loop, "verify.provers.test_loop_handover")
    assert isinstance(Handover.read(made / "handed_over"), LoopHandover)
    monkeypatch.chdir(made)
    job = ProcessJob(
        training_index=0,
        plan_path="plan.json",
        handover_path=str(made / "handed_over"),
    )
    found = run_worker(job, Script("train.py"), lambda event: None, quiet=True).process_trial
    assert found.proof.passed, found.proof.detail
    assert found.proof.kind in ("exact", "rounding")
    assert found.measurement.samples_per_s > 0


if __name__ == "__main__":
    run_script(Path("train.py"), [], Handing(TuneJob(), Journal(None), sys.argv[1]))
