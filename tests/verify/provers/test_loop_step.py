"""Proofs of ``precision`` for steps of loops: a harmless one, and one that bfloat16 breaks."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.training.loop_step.compiled_step import CompiledStep
from uncork.training.loop_step.mode import StepMode
from uncork.training.state.arrays import ReplayResult
from uncork.verify.provers import data_orders
from uncork.verify.provers.data_orders import sample_order
from uncork.verify.provers.loop_step import prove_loop_step

LOW = StepMode(policy="mixed_bfloat16")


class Training:
    """Fits a line to points around ``offset``, with some noise."""

    shift = 0.0  # of what is to be learned
    noise = 3.0  # more than bfloat16 adds

    def __init__(self, offset: float, *, tells: bool | str = True, metric: str = ""):
        keras.utils.set_random_seed(1)
        self.offset, self.tells = offset, tells
        self.metric = keras.metrics.Mean(name=metric) if metric else None
        self.model = keras.Sequential(
            [
                keras.Input((8,)),
                Centre(offset),
                keras.layers.Dense(16, "relu"),
                keras.layers.Dense(1),
            ]
        )
        self.optimizer = keras.optimizers.SGD(0.02)
        self.optimizer.build(self.model.trainable_variables)

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((y - self.model(x, training=True)) ** 2)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        if self.metric is not None:
            self.metric.update_state(loss)
        if self.tells == "two":
            return {"d_loss": loss, "g_loss": -loss}
        if self.tells == "rate":
            return {"learning_rate": self.optimizer.learning_rate + 0.0, "loss": loss}
        return {"loss": loss} if self.tells else None

    def batches(self, count: int = 32):
        rng = np.random.default_rng(0)
        weights = rng.normal(size=(8, 1))
        for _ in range(count):
            x = rng.normal(size=(64, 8))
            y = x @ weights + self.noise * rng.normal(size=(64, 1)) + self.shift
            yield tf.constant(x + self.offset, tf.float32), tf.constant(y, tf.float32)


class Centre(keras.layers.Layer):
    """Subtracts what bfloat16 does not know from the numbers around it."""

    def __init__(self, offset: float):
        super().__init__()
        self.offset = offset

    def call(self, x):
        return x - self.offset


def taken(training: Training) -> CompiledStep:
    step = CompiledStep(training.step)
    step.is_recording = step.is_examined = True
    for x, y in training.batches():
        training.step(x, y)
    return step


@pytest.fixture(autouse=True)
def _as_many_steps_on_any_machine(monkeypatch):
    """How many fit into a budget is a matter of what else the machine does."""
    monkeypatch.setattr(data_orders, "_STEPS", (200, 200))


def test_a_step_that_bfloat16_does_no_harm_is_proved():
    training = Training(0.0)
    step = taken(training)
    before = [v.numpy() for v in training.model.variables]
    proof = prove_loop_step(step, LOW, "precision", budget_s=5.0)
    assert proof.passed, proof.detail
    assert "data orders" in proof.detail
    for variable, value in zip(training.model.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)


def test_a_step_that_bfloat16_breaks_is_refused():
    training = Training(1000.0)
    proof = prove_loop_step(taken(training), LOW, "precision", budget_s=5.0)
    assert not proof.passed
    assert proof.kind == "precision"


def test_a_step_that_tells_no_loss_proves_nothing():
    training = Training(0.0, tells=False)
    proof = prove_loop_step(taken(training), LOW, "precision", budget_s=5.0)
    assert not proof.passed
    assert "returns no loss" in proof.detail


def test_losses_that_work_against_each_other_prove_nothing():
    training = Training(0.0, tells="two")
    proof = prove_loop_step(taken(training), LOW, "precision", budget_s=5.0)
    assert not proof.passed
    assert "single loss" in proof.detail


@pytest.mark.deep
def test_of_several_numbers_the_loss_is_judged():
    """Not the learning rate, which is the same whatever is trained."""
    harmless = Training(0.0, tells="rate")
    proof = prove_loop_step(taken(harmless), LOW, "precision", budget_s=5.0)
    assert proof.passed, proof.detail
    broken = Training(1000.0, tells="rate")
    assert not prove_loop_step(taken(broken), LOW, "precision", budget_s=5.0).passed


def test_a_loss_that_is_kept_in_a_metric_tells_as_well():
    """As TensorFlow's introduction has it: ``train_loss(loss)``, and nothing is returned."""
    harmless = Training(0.0, tells=False, metric="train_loss")
    proof = prove_loop_step(taken(harmless), LOW, "precision", budget_s=5.0)
    assert proof.passed, proof.detail
    broken = Training(1000.0, tells=False, metric="train_loss")
    assert not prove_loop_step(taken(broken), LOW, "precision", budget_s=5.0).passed
    unknown = Training(0.0, tells=False, metric="score")
    proof = prove_loop_step(taken(unknown), LOW, "precision", budget_s=5.0)
    assert "returns no loss" in proof.detail


@pytest.mark.parametrize("tf32", [False, True])
def test_xla_is_compared_without_tf32(tf32, monkeypatch):
    """Where products are rounded to it; called with a row less, nothing was compiled with it."""
    sizes: list[int] = []
    monkeypatch.setattr("uncork.verify.provers.loop_step.is_tf32_enabled", lambda: tf32)
    training = Training(0.0)
    step = taken(training)
    compute = training.model.call

    def call(x, **how):
        sizes.append(x.shape[0])
        assert tf.config.experimental.tensor_float_32_execution_enabled() is not tf32
        return compute(x, **how)

    training.model.call = call
    proof = prove_loop_step(step, StepMode.XLA, "rounding")
    assert proof.passed, proof.detail
    assert ("without TF32" in proof.detail) is tf32
    assert set(sizes) == {63 if tf32 else 64}
    assert tf.config.experimental.tensor_float_32_execution_enabled()


def test_proofs_begin_where_the_training_was_first_seen():
    training = Training(0.0)
    step = CompiledStep(training.step)
    step.is_examined = True
    first = [v.numpy() for v in training.model.variables]
    for x, y in training.batches():
        training.step(x, y)
    assert step.initial_state is not None
    assert any((v.numpy() != f).any() for v, f in zip(training.model.variables, first, strict=True))
    step.initial_state.restore()
    for variable, value in zip(training.model.variables, first, strict=True):
        np.testing.assert_array_equal(variable, value)


@pytest.mark.parametrize(("held", "steps"), [(3, 7), (64, 40), (1, 4)])
def test_every_batch_is_met_once_a_pass(held, steps):
    order = sample_order(held, steps, seed=5)
    assert len(order) == steps
    for begin in range(0, steps - held + 1, held):
        assert sorted(order[begin : begin + held]) == list(range(held))


def test_windows_of_orders_that_are_handed_over_end_where_losses_are_told():
    orders, _ = data_orders.train_over_orders(
        lambda order, windows: ReplayResult((1.0,) * windows, []),
        batch_count=8,
        budget_s=1.0,
        steps_per_loss=6,
    )
    assert {len(order) % (4 * 6) for order in orders} == {0}


def test_gradients_may_be_accumulated_before_they_move_anything():
    training = Training(0.0)
    training.optimizer = keras.optimizers.SGD(0.02, gradient_accumulation_steps=8)
    training.optimizer.build(training.model.trainable_variables)
    proof = prove_loop_step(taken(training), StepMode(is_xla=True), "rounding", budget_s=5.0)
    assert "changes no weight" not in proof.detail


class Computing(Training):
    """Its compiled function gives gradients back, and the loop applies them."""

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((y - self.model(x, training=True)) ** 2)
        return {"loss": loss, "gradients": tape.gradient(loss, self.model.trainable_variables)}


@pytest.mark.parametrize(
    ("mode", "kind"),
    [(StepMode(is_xla=True), "exact"), (StepMode(is_xla=True), "rounding"), (LOW, "precision")],
)
def test_a_function_that_moves_no_weight_proves_nothing(mode, kind):
    proof = prove_loop_step(taken(Computing(0.0)), mode, kind, budget_s=5.0)
    assert not proof.passed
    assert "changes no weight" in proof.detail


def test_a_step_that_float16_does_no_harm_is_proved_with_its_loss_scaled():
    """From the first scale on in each of the trainings that are compared."""
    training = Training(0.0)
    step = taken(training)
    proof = prove_loop_step(step, StepMode(policy="mixed_float16"), "precision", budget_s=5.0)
    assert proof.passed, proof.detail
    assert step.mode_refusal == ""


@pytest.mark.deep
def test_harm_that_the_last_layer_does_is_none_where_it_stays_in_float32():
    """Outputs around 300, between which bfloat16 knows 302 as the next one."""
    found = []
    for careful in (False, True):
        training = Training(0.0)
        training.model.layers[-1].bias.assign([300.0])
        training.optimizer = keras.optimizers.SGD(0.002)
        training.optimizer.build(training.model.trainable_variables)
        training.shift, training.noise = 300.0, 0.3
        mode = StepMode(policy="mixed_bfloat16", is_precision_conservative=careful)
        found.append(prove_loop_step(taken(training), mode, "precision", budget_s=5.0))
    assert [proof.passed for proof in found] == [False, True], [proof.detail for proof in found]
