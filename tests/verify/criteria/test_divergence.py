"""Trainings that go astray by rounding alone, as most do on a GPU; by a fake of its kernels."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.edits.step import StepsPerExecution
from uncork.training.run.step_settings import StepSettings
from verify.trainings import BUDGET_S, faster_learning, mlp, prover, step_twice


@keras.saving.register_keras_serializable("uncork_tests")
class FakeKernel(keras.layers.Layer):
    """What adding up in any order does to each number: another last bit in every run."""

    def __init__(self, relative, **kwargs):
        super().__init__(**kwargs)
        self._relative, self._drawn = relative, np.random.default_rng(7)

    def call(self, x):
        def draw(like):
            noise = self._drawn.standard_normal(like.shape)
            return (1 + self._relative * noise).astype("float32")

        factors = tf.numpy_function(draw, [x], tf.float32, stateful=True)
        return x * tf.ensure_shape(factors, x.shape)


def astray(relative):
    """A bias before a normalization learns nothing: Adam takes whole steps by its rounding."""
    between = FakeKernel(relative), keras.layers.BatchNormalization()
    model = mlp(*between, optimizer=keras.optimizers.Adam(epsilon=1e-12))
    return model, prover(model)


@pytest.fixture(scope="module")
def trained():
    return astray(2e-5)


def test_two_runs_are_far_apart_and_chained_steps_are_believed_all_the_same(trained):
    model, prover_ = trained
    proof = prover_.prove(StepSettings(model, (StepsPerExecution(steps=2),)), "exact", BUDGET_S)
    assert proof.passed, proof.detail
    assert proof.kind == "rounding"
    assert proof.detail.startswith("after 4 steps")  # no more than it takes


@pytest.mark.every(2)
@pytest.mark.parametrize("factor", [1.01, 1.1])
def test_what_learns_faster_is_not(trained, factor):
    model, prover_ = trained
    assert not prover_.prove(faster_learning(model, factor), "exact", BUDGET_S).passed


@pytest.mark.deep
def test_a_step_that_is_done_twice_is_noticed(trained):
    model, prover_ = trained
    assert not prover_.prove(step_twice(model), "exact", BUDGET_S).passed


def test_what_draws_random_numbers_is_compared_with_nothing():
    model, prover_ = astray(1e-2)
    proof = prover_.prove(StepSettings(model, (StepsPerExecution(steps=2),)), "exact", BUDGET_S)
    assert not proof.passed
    assert "two runs of the step itself differ" in proof.detail
