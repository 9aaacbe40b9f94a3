"""A model that is trained under a plan, and then goes on without."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from uncork.core.edits.step import JitCompile, StepEdit, StepsPerExecution
from uncork.training.run.planned_step import PlannedStep
from uncork.training.state.snapshot import read_weights

ROWS = np.random.default_rng(2).normal(size=(32, 6)).astype("float32")
SUMS = ROWS.sum(1, keepdims=True)


def made(*, frozen: bool) -> tuple[keras.Model, keras.Model]:
    keras.utils.set_random_seed(5)
    base = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4)])
    base.trainable = not frozen
    model = keras.Sequential([keras.Input((6,)), base, keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    return base, model


@pytest.mark.every(3)
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("edits", [(), (StepsPerExecution(steps=2),), (JitCompile(),)])
def test_who_forgets_to_compile_again_trains_what_was_traced(
    edits: tuple[StepEdit, ...], frozen: bool
) -> None:
    """The best-known mistake in fine-tuning, which no plan may turn into an error or a cure."""

    def trained(planned: bool) -> list[np.ndarray]:
        base, model = made(frozen=frozen)
        step = PlannedStep(model, edits)
        if planned:
            with step.active():
                model.fit(ROWS, SUMS, batch_size=8, verbose=0)
        else:
            model.fit(ROWS, SUMS, batch_size=8, verbose=0)
        base.trainable = frozen
        if planned:
            with step.keep_trained_weights():
                model.fit(ROWS, SUMS, batch_size=8, verbose=0)
        else:
            model.fit(ROWS, SUMS, batch_size=8, verbose=0)
        assert base.trainable is frozen
        return read_weights(model)

    for ours, theirs in zip(trained(planned=True), trained(planned=False), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
