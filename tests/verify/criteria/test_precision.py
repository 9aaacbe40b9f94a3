"""The proof of lower precision, and the trainings that it must not believe."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.edits.step import DtypePolicy, StepsPerExecution
from uncork.training.run.replay import BatchRecording, run_replay
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.arrays import ReplayResult
from uncork.training.state.snapshot import Snapshot
from uncork.verify.criteria.precision import MAX_ORDERS, prove_precision
from uncork.verify.provers import data_orders
from verify.trainings import BUDGET_S, Lying, disturbed, faster_learning, feed, mlp, prover

BFLOAT16 = DtypePolicy(policy="mixed_bfloat16")
FLOAT16 = DtypePolicy(policy="mixed_float16")


@pytest.fixture(scope="module")
def model() -> keras.Model:
    return mlp(keras.layers.BatchNormalization())


@pytest.fixture(scope="module")
def prove(model):
    made = prover(model)
    return lambda settings: made.prove(settings, "precision", BUDGET_S)


def coarse(model, bits: int) -> Lying:
    """A layer that computes with weights of so few bits."""
    layer = model.layers[0]
    call = layer.call

    def quantized(x, **kwargs):
        levels = 2 ** (bits - 1) - 1
        largest = keras.ops.max(keras.ops.abs(layer.kernel))
        rounded = keras.ops.round(layer.kernel / largest * levels) / levels * largest
        # Gradients as if nothing had happened, which is how such lies are usually trained.
        kernel = layer.kernel + keras.ops.stop_gradient(rounded - layer.kernel)
        return layer.activation(keras.ops.matmul(x, kernel) + layer.bias)

    return Lying(
        model,
        enter=lambda m: setattr(layer, "call", quantized),
        leave=lambda m: setattr(layer, "call", call),
    )


def breaking(model) -> Lying:
    """Becomes NaN after some steps."""

    def around(function):
        calls = iter(range(1_000_000))

        def train(iterator):
            if next(calls) == 30:
                model.layers[0].bias.assign(model.layers[0].bias * np.nan)
            return function(iterator)

        return train

    return Lying(model, around=around)


def scaled_loss(model, factor: float) -> Lying:
    """Reports a lower loss than it has."""

    def around(function):
        def train(iterator):
            return {k: v * factor for k, v in function(iterator).items()}

        return train

    return Lying(model, around=around)


@pytest.mark.deep
def test_bfloat16_is_precise_enough(model, prove):
    before = [w.copy() for w in model.get_weights()]
    proof = prove(StepSettings(model, (BFLOAT16,)))
    assert proof.passed, proof.detail
    assert proof.kind == "precision"
    assert "data orders" in proof.detail
    for ours, held in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, held)


@pytest.mark.deep
def test_float16_with_its_loss_scaled_is_precise_enough(model, prove):
    proof = prove(StepSettings(model, (FLOAT16,)))
    assert proof.passed, proof.detail
    assert {"apply", "scale_loss"}.isdisjoint(vars(model.optimizer))


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "layers",
    [
        [keras.layers.Rescaling(3e4), keras.layers.BatchNormalization()],  # overflows
        [keras.layers.Rescaling(1e-6), keras.layers.Rescaling(1e6)],  # loses what is small
    ],
    ids=["too large", "too small"],
)
def test_a_model_that_float16_breaks_is_refused(layers):
    planted = mlp(*layers)
    made = prover(planted)
    assert made.prove(StepSettings(planted), "precision", BUDGET_S).passed
    assert not made.prove(StepSettings(planted, (FLOAT16,)), "precision", BUDGET_S).passed


@pytest.mark.deep
def test_bfloat16_and_chained_steps_together(model, prove):
    proof = prove(StepSettings(model, (BFLOAT16, StepsPerExecution(steps=4))))
    assert proof.passed, proof.detail


@pytest.mark.deep
def test_the_original_itself_passes(model, prove):
    assert prove(StepSettings(model)).passed


LIES = {
    "learning rate x5": lambda m: faster_learning(m, 5.0),
    "learning rate x0.8": lambda m: faster_learning(m, 0.8),
    "learning rate x0": lambda m: faster_learning(m, 0.0),
    "learning rate x-1": lambda m: faster_learning(m, -1.0),
    "weights of two bits": lambda m: coarse(m, 2),
    "weights a half off": lambda m: disturbed(m, 0.5),
    "NaN after thirty steps": breaking,
    "a loss that is told lower": lambda m: scaled_loss(m, 0.8),
    "a loss that is told higher": lambda m: scaled_loss(m, 1.2),
    "a loss of nothing": lambda m: scaled_loss(m, 0.0),
}


@pytest.mark.every(9)
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused(model, prove, lie):
    proof = prove(LIES[lie](model))
    assert not proof.passed, proof.detail


@pytest.mark.xfail(strict=True, reason="only the training loss is looked at")
def test_statistics_that_only_inference_uses(model, prove):
    norm = next(la for la in model.layers if isinstance(la, keras.layers.BatchNormalization))

    def around(function):
        def train(iterator):
            logs = function(iterator)
            norm.moving_variance.assign(tf.zeros_like(norm.moving_variance))
            return logs

        return train

    assert not prove(Lying(model, around=around)).passed


def runs(*losses: tuple[float, ...]) -> list[ReplayResult]:
    return [ReplayResult(each, [np.ones(2, np.float32)]) for each in losses]


STEADY = runs((1.0, 0.8), (1.02, 0.82), (0.98, 0.78), (1.01, 0.79))


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (runs((1.0, 0.8), (1.02, 0.82), (0.98, 0.78), (1.01, 0.79)), ""),
        (runs((1.01, 0.81), (1.03, 0.82), (0.98, 0.79), (1.01, 0.79)), ""),
        (runs((1.0, 0.8), (1.02, 0.82), (0.98, 0.78), (1.01, 0.95)), "window 2 of 2"),
        (runs((1.3, 0.8), (1.02, 0.82), (0.98, 0.78), (1.01, 0.79)), "window 1 of 2"),
        (runs((1.0, 0.5), (1.02, 0.82), (0.98, 0.78), (1.01, 0.79)), "outside"),
        (runs((1.0, 0.835), (1.02, 0.855), (0.98, 0.815), (1.01, 0.825)), "higher by 0.035"),
        (runs((1.0, np.nan), (1.02, 0.82), (0.98, 0.78), (1.01, 0.79)), "NaN or infinite"),
        (runs((1.0, np.inf), (1.02, 0.82), (0.98, 0.78), (1.01, 0.79)), "NaN or infinite"),
        (runs((1.0,), (1.02,), (0.98,), (1.01,)), "cannot be compared"),
    ],
)
def test_the_band_and_the_bias(candidate, words):
    proof = prove_precision(STEADY, candidate, 40)
    assert proof.passed is (not words), proof.detail
    assert words in proof.detail


def test_an_original_that_breaks_proves_nothing():
    broken = runs((np.nan, 1.0), (1.0, 1.0))
    assert "original's loss" in prove_precision(broken, broken, 40).detail
    assert not prove_precision(broken, broken, 40).passed


@pytest.mark.parametrize("middle", [1.0, 0.0, -1.0])
def test_a_band_as_wide_as_the_loss_proves_nothing(middle):
    wild = runs(*[(middle + d,) for d in (-1.0, 1.0, 0.5, -0.5)])
    proof = prove_precision(wild, wild, 40)
    assert not proof.passed
    assert "too wide" in proof.detail
    assert not proof.is_disproved  # the original itself varies so much


class Telling(keras.Sequential):
    """A model with a training step of its own, which calls its losses as it likes."""

    names = ("total_loss", "reconstruction_loss")

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return dict.fromkeys(self.names, loss)


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("names", "kind", "passes"),
    [
        (("total_loss", "kl_loss"), "exact", True),
        (("total_loss", "kl_loss"), "precision", True),
        (("d_loss", "g_loss"), "exact", True),
        (("d_loss", "g_loss"), "precision", False),  # which of them is to become small?
    ],
)
def test_losses_by_other_names(names, kind, passes):
    made = mlp()
    telling = Telling(made.layers)
    telling.names = names
    telling.compile("adam", made.loss)
    proof = prover(telling).prove(
        StepSettings(telling, (StepsPerExecution(steps=2),)), kind, BUDGET_S
    )
    assert proof.passed == passes, proof.detail
    assert passes or "single loss" in proof.detail


def test_equal_runs_leave_room_for_float32_only():
    flat = runs(*[(2.0,)] * 4)
    assert prove_precision(flat, runs(*[(2.000001,)] * 4), 40).passed
    assert not prove_precision(flat, runs(*[(2.0001,)] * 4), 40).passed


def test_weights_that_are_not_finite_are_refused():
    broken = [ReplayResult(r.losses, [np.array([np.nan], np.float32)]) for r in STEADY]
    assert not prove_precision(STEADY, broken, 40).passed


def test_as_many_orders_are_run_as_the_variance_of_all_of_them_asks_for(model, monkeypatch):
    """Four ask for a fifth, which strays and asks for more."""
    made = prover(model)
    gaps = iter([0.0, 0.016, -0.016, 0.0, 0.03, -0.03, 0.03, -0.03])
    orders = []

    def run(settings, order, windows=1, every=1):
        is_candidate = len(orders) % 2 == 1
        orders.append(len(order))
        middle = 1.0 + 0.02 * ((len(orders) - 1) // 2 % 4)
        return ReplayResult((middle + (next(gaps) if is_candidate else 0.0),) * 4, [])

    monkeypatch.setattr(data_orders, "_affordable", lambda train, held, seconds: 40)
    monkeypatch.setattr(made, "_run", run)
    monkeypatch.setattr(made, "_start", lambda: ReplayResult((), []))
    made.prove(StepSettings(model), "precision", BUDGET_S)
    assert len(orders) == 2 * MAX_ORDERS


class OwnLoss(keras.Model):
    """Tells the loss of each batch, where Keras would tell the mean so far."""

    def train_step(self, batch):
        x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.compute_loss(x, y, self(x, training=True)))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


@pytest.mark.parametrize("own", [True, False])
def test_losses_are_those_of_the_batches_whoever_tells_them(own):
    keras.utils.set_random_seed(1)
    words, kind = keras.Input((16,)), OwnLoss if own else keras.Model
    made = kind(words, keras.layers.Dense(5)(words))
    made.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    made.optimizer.build(made.trainable_variables)
    snapshot, batches = (
        Snapshot(made),
        BatchRecording.from_feed(feed(), made, max_batches=8, max_bytes=1 << 20),
    )
    found = run_replay(StepSettings(made), snapshot, batches.feed(range(8)), windows=4).losses
    snapshot.restore()
    each = []
    for x, y, *_ in batches.batches:
        made.reset_metrics()
        each.append(float(made.train_on_batch(x, y, return_dict=True)["loss"]))
    assert found == pytest.approx(
        [(a + b) / 2 for a, b in zip(each[::2], each[1::2], strict=True)], rel=1e-5
    )


def telling(losses, end):
    """A training that starts at nothing."""
    return ReplayResult(losses, [np.asarray(end, "float32")])


START = telling((), [1.0, 1.0])


@pytest.mark.parametrize(
    ("way", "falls", "passes"),
    [
        ([1.001, 1.002], False, True),  # nothing is learned yet, and the weights go the same way
        ([0.999, 0.998], False, False),
        ([1.0, 1.0], False, False),
        ([0.999, 0.998], True, True),  # a training that learns is judged by its losses
    ],
)
def test_a_training_that_learns_nothing_yet_tells_by_its_weights(way, falls, passes):
    """As at a rate that the script raises from step to step: losses are those of any training."""
    noise = (0.0, 0.002, -0.002, 0.001)
    begins = 2.0 if falls else 1.0
    ours = [telling((begins + n, 1.0 + n), [1.001, 1.002]) for n in noise]
    theirs = [telling((begins + n, 1.0 + n), way) for n in noise]
    proof = prove_precision(ours, theirs, 40, START)
    assert proof.passed is passes, proof.detail
    assert passes or "would not reveal a worse training" in proof.detail


def test_updates_must_be_among_the_steps():
    for every, refused in ((100, True), (4, False)):
        other = mlp(optimizer=keras.optimizers.Adam(0.01, gradient_accumulation_steps=every))
        found = prover(other).prove(StepSettings(other, (BFLOAT16,)), "precision", BUDGET_S)
        assert ("accumulated" in found.detail) is refused, found.detail
        assert not (refused and found.passed)
