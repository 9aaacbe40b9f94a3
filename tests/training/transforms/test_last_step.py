"""Where only its end tells how long the data are: XLA's last step counts as the script's does."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.edits.step import FlatUpdates, JitCompile, StepEdit
from uncork.training.optimizer.flat_updates import wrap_callbacks
from uncork.training.run.planned_step import PlannedStep
from uncork.training.state.snapshot import read_weights
from uncork.training.transforms.last_step import LastStepFallback

DRAW = np.random.default_rng(4)
ROWS = DRAW.normal(size=(40, 6)).astype("float32")
SUMS = ROWS.sum(1, keepdims=True)
EPOCHS, STEPS = 3, 10


def model(optimizer: Any) -> keras.Model:
    keras.utils.set_random_seed(2)
    layers = [keras.layers.Dense(4) for _ in range(5)]
    made = keras.Sequential([keras.Input((6,)), *layers, keras.layers.Dense(1)])
    made.compile(optimizer, "mse", jit_compile=False)
    made.optimizer.build(made.trainable_variables)
    return made


def data(*, known: bool) -> tf.data.Dataset:
    rows = tf.data.Dataset.from_tensor_slices((ROWS, SUMS))
    rows = rows if known else rows.filter(lambda row, total: True)
    return rows.batch(len(ROWS) // STEPS)


def trained(edits: tuple[StepEdit, ...], *, known: bool) -> keras.Model:
    """With weights that decay in every step, that at the end of the data among them."""
    made = model(keras.optimizers.AdamW(0.01, weight_decay=0.1))
    planned = PlannedStep(made, edits)
    callbacks = wrap_callbacks(planned.flat_group, []) if planned.flat_group else []
    for _ in range(2):  # and in a second fit, which finds all of it traced
        with planned.active():
            made.fit(data(known=known), epochs=EPOCHS, callbacks=callbacks, verbose=0)
        assert "make_train_function" not in vars(made)
    return made


@pytest.mark.every(4)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("edits", [(JitCompile(),), (JitCompile(), FlatUpdates())])
def test_it_is_counted_as_written(edits: tuple[StepEdit, ...], known: bool) -> None:
    ours, theirs = trained(edits, known=known), trained((), known=known)
    assert int(ours.optimizer.iterations) == int(theirs.optimizer.iterations)
    for one, other in zip(read_weights(ours), read_weights(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def test_the_model_is_given_back_its_own_function() -> None:
    made = model("adam")
    with PlannedStep(made, (JitCompile(),)).active():
        made.fit(data(known=False), verbose=0)
    assert made.train_function is None
    made.fit(data(known=False), verbose=0)
    assert not isinstance(made.train_function, LastStepFallback)


class Unfreezing(keras.callbacks.Callback):
    """Compiles anew: the script's own settings, without XLA, hold from then on."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch == 0:
            self.model.compile(keras.optimizers.AdamW(0.01, weight_decay=0.1), "mse")
            self.model.fit(data(known=False), verbose=0)


@pytest.mark.deep
def test_what_a_callback_compiles_anew_counts_once() -> None:
    counts = []
    for edits in ((JitCompile(),), ()):
        made = model(keras.optimizers.AdamW(0.01, weight_decay=0.1))
        with PlannedStep(made, edits).active():
            made.fit(data(known=False), epochs=3, callbacks=[Unfreezing()], verbose=0)
        counts.append(int(made.optimizer.iterations))
    assert counts[0] == counts[1]
