"""The proofs of a training step's weights, and the steps that they must not believe."""

from __future__ import annotations

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.edits.step import JitCompile, StepsPerExecution
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.arrays import ReplayResult
from uncork.verify.criteria.rounding import (
    can_detect_divergence,
    create_nudge,
    prove_exact,
    prove_rounding,
)
from uncork.verify.provers import fit_step
from verify.trainings import (
    BUDGET_S,
    Lying,
    disturbed,
    faster_learning,
    mlp,
    only_metrics,
    other_batch,
    prover,
    step_left_out,
    step_twice,
    with_attribute,
)


class Trained:
    """A model with its prover: the original's step is compiled once for all tests."""

    def __init__(self, *between, **kwargs) -> None:
        self.model = mlp(*between, **kwargs)
        self.before = [w.copy() for w in self.model.get_weights()]
        self._prover = prover(self.model)

    def proof(self, settings, kind):
        found = self._prover.prove(settings, kind, BUDGET_S)
        for ours, held in zip(self.model.get_weights(), self.before, strict=True):
            np.testing.assert_array_equal(ours, held)
        return found


@pytest.fixture(scope="module")
def dropping() -> Trained:
    return Trained(keras.layers.Dropout(0.3, seed=4))


@pytest.fixture(scope="module")
def plain() -> Trained:
    return Trained()


LIES = {
    "learning rate x1.01": lambda t: faster_learning(t.model, 1.01),
    "learning rate x1.0001": lambda t: faster_learning(t.model, 1.0001),
    "weights perturbed by 1e-3": lambda t: disturbed(t.model, 1e-3),
    "weights perturbed by 1e-5": lambda t: disturbed(t.model, 1e-5),
    "a step left out": lambda t: step_left_out(t.model),
    "a step too many": lambda t: step_twice(t.model),
    "a step on another batch": lambda t: other_batch(t.model),
    "gradients clipped": lambda t: with_attribute(
        t.model, t.model.optimizer, "global_clipnorm", 0.1
    ),
    "other momentum": lambda t: with_attribute(t.model, t.model.optimizer, "beta_1", 0.91),
    "linear where it was not": lambda t: with_attribute(
        t.model, t.model.layers[0], "activation", keras.activations.leaky_relu
    ),
    "a layer that no longer learns": lambda t: frozen(t.model),
}


def frozen(model) -> Lying:
    layer = model.layers[0]

    def call(x, **kwargs):
        return keras.ops.stop_gradient(type(layer).call(layer, x))

    return with_attribute(model, layer, "call", call)


@pytest.mark.every(6)
@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_not_even_rounding(plain, lie):
    """This asks for bit-wise equality first."""
    assert not plain.proof(LIES[lie](plain), "rounding").passed


@pytest.mark.parametrize("lie", ["learning rate x1.0001", "a step on another batch"])
def test_a_lie_is_not_exact(plain, lie):
    proof = plain.proof(LIES[lie](plain), "exact")
    assert not proof.passed
    assert "two runs of the original are equal" in proof.detail


def test_dropout_that_was_turned_off_is_noticed(dropping):
    layer = next(la for la in dropping.model.layers if isinstance(la, keras.layers.Dropout))
    assert not dropping.proof(with_attribute(dropping.model, layer, "rate", 0.0), "exact").passed


def test_dropout_with_another_seed_is_noticed(dropping):
    (state,) = [v for v in dropping.model.variables if "seed" in v.path]
    reseeded = Lying(dropping.model, enter=lambda m: state.assign(state + 1))
    assert not dropping.proof(reseeded, "exact").passed


@pytest.mark.parametrize("steps", [2, 5])
def test_chained_steps_are_exact_dropout_included(dropping, steps):
    settings = StepSettings(dropping.model, (StepsPerExecution(steps=steps),))
    proof = dropping.proof(settings, "exact")
    assert proof.passed, proof.detail
    assert (proof.kind, "bit for bit" in proof.detail) == ("exact", True)


def test_chained_steps_that_learn_faster_are_noticed(dropping):
    lie = faster_learning(dropping.model, 1.01, (StepsPerExecution(steps=2),))
    assert not dropping.proof(lie, "exact").passed


def test_xla_is_rounding(plain):
    proof = plain.proof(StepSettings(plain.model, (JitCompile(),)), "rounding")
    assert proof.passed, proof.detail


def test_xla_that_learns_faster_is_not(plain):
    lie = faster_learning(plain.model, 1.01, (JitCompile(),))
    assert not plain.proof(lie, "rounding").passed


@pytest.mark.parametrize("kind", ["exact", "rounding"])
def test_metrics_are_no_part_of_the_training(plain, kind):
    assert plain.proof(only_metrics(plain.model), kind).passed


@keras.saving.register_keras_serializable("uncork_tests")
class Rescaled(keras.layers.Layer):
    """Holds one weight so large that it outweighs all others together."""

    def build(self, shape):
        self.scale = self.add_weight(shape=(), initializer=keras.initializers.Constant(1e6))

    def call(self, x):
        return x * (self.scale / 1e6)


def test_a_large_weight_does_not_hide_the_others():
    trained = Trained(Rescaled(), optimizer="sgd")
    proof = trained.proof(faster_learning(trained.model, 1.01), "rounding")
    assert not proof.passed
    assert "diverge further" in proof.detail


def test_bfloat16_weights_count():
    trained = Trained(optimizer=keras.optimizers.SGD(0.1), dtype="bfloat16")
    assert not trained.proof(faster_learning(trained.model, 5.0), "rounding").passed
    assert trained.proof(only_metrics(trained.model), "rounding").passed


def run(*arrays, losses=(1.0,)) -> ReplayResult:
    return ReplayResult(tuple(losses), [np.asarray(a) for a in arrays])


ONES = np.ones(4, np.float32)


def test_two_unequal_originals_judge_nothing():
    assert prove_exact(run(ONES), run(ONES + 1e-7), run(ONES), 3) is None


@pytest.mark.parametrize(
    ("candidate", "passed"),
    [
        (run(ONES), True),
        (run(ONES.astype(np.float64)), False),
        (run(np.nextafter(ONES, 2, dtype=np.float32)), False),
    ],
)
def test_exact_means_bit_for_bit(candidate, passed):
    assert prove_exact(run(ONES), run(ONES), candidate, 3).passed is passed


def test_a_negative_zero_is_another_weight():
    zero = np.zeros(4, np.float32)
    assert not prove_exact(run(zero), run(zero), run(-zero), 3).passed


def test_equal_nan_is_exact_but_never_rounding():
    broken = run(ONES * np.nan)
    assert prove_exact(broken, broken, broken, 3).passed
    assert not prove_rounding(run(ONES), [run(ONES * 1.1)], broken, 3).passed


NUDGED = [run(ONES * (1 + 1e-6))]


@pytest.mark.parametrize(
    ("candidate", "passed"),
    [
        (run(ONES), True),
        (run(ONES * np.float32(1 + 3e-6)), True),
        (run(ONES * np.float32(1 + 1e-5)), False),
        (run(ONES * np.inf), False),
        (run(ONES, losses=(np.nan,)), False),
    ],
)
def test_the_band_is_what_nudges_give(candidate, passed):
    assert prove_rounding(run(ONES), NUDGED, candidate, 3).passed is passed


def test_rounding_does_not_touch_counts():
    ours, other = run(ONES, np.array(12)), run(ONES, np.array(13))
    assert prove_rounding(ours, [ours], ours, 3).passed
    assert not prove_rounding(ours, [run(ONES * 2, np.array(12))], other, 3).passed


def test_what_stayed_at_zero_must_stay_there():
    still = run(np.zeros(4))
    assert prove_rounding(still, [still], still, 3).passed
    assert not prove_rounding(still, [still], run(np.full(4, 1e-3)), 3).passed


def test_a_training_without_weights_has_nothing_to_round():
    assert prove_rounding(run(), [run()], run(), 3).passed


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_distance_knows_every_dtype(dtype):
    ours, other = run(np.ones(4, dtype)), run(np.full(4, 1.5, dtype))
    assert ours.distance(other) == pytest.approx(0.5)
    assert not run(np.full(4, np.nan, dtype)).is_finite


def test_a_nudge_moves_every_weight_and_hardly():
    model = mlp()
    before = [w.copy() for w in model.get_weights()]
    create_nudge(1)(model)
    first = [w.copy() for w in model.get_weights()]
    for ours, held in zip(first, before, strict=True):
        np.testing.assert_allclose(ours, held, rtol=2e-6)
        assert (ours != held).mean() > 0.9 or not held.any()
    model.set_weights(before)
    create_nudge(2)(model)
    assert any((a != b).any() for a, b in zip(model.get_weights(), first, strict=True))


def test_what_does_not_repeat_itself_is_close_to_anything_and_proves_nothing():
    """The band would be that of its random numbers, which a step left out is inside of, too."""

    @keras.saving.register_keras_serializable("uncork-tests")
    class Noise(keras.layers.Layer):
        def call(self, x):
            return x + tf.random.normal(tf.shape(x))

    noisy = Trained(Noise())
    for kind in ("exact", "rounding"):
        proof = noisy.proof(step_left_out(noisy.model), kind)
        assert not proof.passed
        assert "two runs" in proof.detail


@pytest.mark.deep
def test_what_moves_nothing_proves_nothing(monkeypatch):
    """Gradients are accumulated beyond the steps that are compared."""
    monkeypatch.setattr(fit_step, "_LONGER_S", 600.0)  # on a busy machine, too
    for every, passes in ((1000, False), (64, True)):
        model = mlp(optimizer=keras.optimizers.SGD(0.1, gradient_accumulation_steps=every))
        settings = StepSettings(model, (StepsPerExecution(steps=4),))
        proof = prover(model).prove(settings, "exact", BUDGET_S)
        assert proof.passed is passes, proof.detail
        assert passes or "change too little" in proof.detail


def test_what_hardly_moves_does_not_pass_for_rounding():
    """Beside the last bits of the weights a wrong gradient would not be seen."""
    model = mlp(optimizer=keras.optimizers.SGD(1e-7))
    proof = prover(model).prove(StepSettings(model, (JitCompile(),)), "rounding", BUDGET_S)
    assert not proof.passed
    assert "change too little" in proof.detail


def test_what_counts_samples_does_not_tell_of_a_training():
    """A metric's count moves by as much, and the same, whatever the weights do."""
    weight, count = np.ones(4, np.float32), np.zeros(1, np.float32)

    def run(moved, counted):
        arrays = [weight + np.float32(moved), count + np.float32(counted)]
        return ReplayResult((), arrays, learned_positions=frozenset({0}))

    start, original = run(0, 0), run(1e-6, 320)
    assert not can_detect_divergence(start, original, [run(2e-6, 320)])
    assert can_detect_divergence(start, run(1e-2, 320), [run(1.00001e-2, 320)])
