"""Weights updated by one kernel each: the same update, on the state where Keras keeps it."""

from __future__ import annotations

import os
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import FlatUpdates, FusedUpdates, StepsPerExecution
from uncork.training.optimizer.fused_updates import count_fusable_weights
from uncork.training.run.edit_checks import check_edits
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import read_weights

K = keras.optimizers
BATCH = 8
FUSED = (FusedUpdates(),)
EPS = float(np.finfo(np.float32).eps)
# The kernel takes 1 - beta_2 of float32 numbers: of 0.999 that is off by so much at most.
OF_BETA = EPS / 4 / 0.001

OPTIMIZERS: dict[str, Any] = {
    "adam": lambda: K.Adam(0.01),
    "amsgrad, clipped by value": lambda: K.Adam(0.01, amsgrad=True, clipvalue=0.05),
    "adamw, clipped by norm": lambda: K.AdamW(0.01, weight_decay=0.02, clipnorm=0.5),
    "adam, clipped by global norm": lambda: K.Adam(0.01, global_clipnorm=0.5),
    "adam, averaged": lambda: K.Adam(0.01, use_ema=True, ema_overwrite_frequency=3),
    "adam, accumulated": lambda: K.Adam(0.01, gradient_accumulation_steps=2),
    "schedule": lambda: K.Adam(K.schedules.CosineDecay(0.01, 40), beta_1=0.8, epsilon=1e-4),
    "adamax": lambda: K.Adamax(0.01),
    "adadelta": lambda: K.Adadelta(0.5),
    "rmsprop, momentum": lambda: K.RMSprop(0.003, momentum=0.9, weight_decay=0.01),
    "rmsprop, centered, momentum": lambda: K.RMSprop(0.003, rho=0.8, momentum=0.9, centered=True),
}
TO_THE_BIT: dict[str, Any] = {
    "momentum": lambda: K.SGD(0.05, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda: K.SGD(0.05, momentum=0.9, nesterov=True, clipvalue=0.1),
}
WITHOUT: dict[str, Any] = {
    "SGD": lambda: K.SGD(0.05),
    "RMSprop": lambda: K.RMSprop(0.003),
    "Nadam": lambda: K.Nadam(0.01),
    "Adagrad": lambda: K.Adagrad(0.01),
    "Own": lambda: Own(0.01),
}


class Own(K.Adam):
    """Somebody's: what its update does nobody knows."""


def model(optimizer: Any) -> Any:
    """A table, whose gradient is sparse, layers, and a weight that is held in bounds."""
    keras.utils.set_random_seed(3)
    words = keras.Input((4,), dtype="int32")
    x = keras.layers.Flatten()(keras.layers.Embedding(50, 4)(words))
    for _ in range(4):
        x = keras.layers.Dense(8, activation="tanh")(x)
    x = keras.layers.Dense(4, kernel_constraint="max_norm")(x)
    made = keras.Model(words, keras.layers.Dense(1)(x))
    made.compile(optimizer, "mse")
    made.optimizer.build(made.trainable_variables)
    made.optimizer.build(made.trainable_variables)
    return made


def data(steps: int) -> tf.data.Dataset:
    draw = np.random.default_rng(5)
    words = draw.integers(0, 50, (10 * BATCH, 4)).astype("int32")
    labels = draw.normal(size=(10 * BATCH, 1)).astype("float32")
    whole = tf.data.Dataset.from_tensor_slices((words, labels)).batch(BATCH)
    return whole.repeat().take(steps)


def trained(made: Any, edits: Any, steps: int) -> list[np.ndarray]:
    with StepSettings(made, edits).active():
        made.fit(data(steps), verbose=0)
    return read_weights(made)


def apart(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """The largest difference of an element, as a part of the largest in its variable."""
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.dtype.kind == "f" and b.size]
    return max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in pairs)


def distance(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """Of all numbers together, relative."""
    a, b = (np.concatenate([w.astype("float64").ravel() for w in each]) for each in (ours, theirs))
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def some(optimizers: dict[str, Any]) -> list[str]:
    """Every third; all of them where many examples are asked for, as for the properties."""
    return list(optimizers)[:: 1 if "UNCORK_EXAMPLES" in os.environ else 3]


@pytest.mark.every(4)
@pytest.mark.parametrize("optimizer", some(OPTIMIZERS))
def test_a_step_differs_by_no_more_than_one_from_weights_of_another_last_bit(optimizer: str):
    make, steps = OPTIMIZERS[optimizer], 2
    ours, theirs, nudged = model(make()), model(make()), model(make())
    for weight in nudged.trainable_variables:
        weight.assign(np.nextafter(weight.numpy(), np.float32(np.inf)))
    plain = trained(theirs, (), steps)
    gap, control = (
        apart(trained(ours, FUSED, steps), plain),
        apart(trained(nudged, (), steps), plain),
    )
    assert gap <= 2 * max(control, 8 * EPS, OF_BETA if isinstance(ours.optimizer, K.Adam) else 0.0)
    assert apart(read_weights(model(make())), plain) > 100 * gap, "the steps did something"


@pytest.mark.every(2)
@pytest.mark.parametrize("optimizer", TO_THE_BIT)
def test_momentum_is_equal_bit_for_bit(optimizer: str):
    make = TO_THE_BIT[optimizer]
    ours, theirs = (trained(model(make()), edits, 40) for edits in (FUSED, ()))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(ours, theirs, strict=True))


@pytest.mark.deep
@pytest.mark.every(2)
@pytest.mark.parametrize("optimizer", ["adam", "rmsprop, centered, momentum"])
def test_a_training_goes_on_with_either_at_any_step(optimizer: str):
    make = OPTIMIZERS[optimizer]
    mixed, plain = model(make()), model(make())
    settings = [StepSettings(mixed, edits) for edits in ((), FUSED)]
    for turn in (1, 0, 1):
        with settings[turn].active():
            mixed.fit(data(5), verbose=0)
        plain.fit(data(5), verbose=0)
    assert distance(read_weights(mixed), read_weights(plain)) < 1e-4


def test_a_checkpoint_is_the_one_that_keras_writes(tmp_path: Any):
    made, other = model("adam"), model("adam")
    trained(made, FUSED, 5)
    made.save_weights(tmp_path / "a.weights.h5")
    other.load_weights(tmp_path / "a.weights.h5")
    assert all(
        a.tobytes() == b.tobytes()
        for a, b in zip(read_weights(other), read_weights(made), strict=True)
    )


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "others",
    [(FlatUpdates(),), (StepsPerExecution(steps=5),), (FlatUpdates(), StepsPerExecution(steps=5))],
)
def test_beside_other_edits(others: Any):
    ours, theirs = trained(model("adam"), (*others, *FUSED), 10), trained(model("adam"), (), 10)
    assert distance(ours, theirs) < 1e-4


def test_dense_weights_have_a_kernel_and_sparse_ones_keras_s_own():
    made = model("adam")
    step = tf.function(lambda x, y: made.train_step((x, y)))
    with StepSettings(made, FUSED).active():
        graph = step.get_concrete_function(*next(iter(data(1)))).graph
    kinds = [op.type for op in graph.get_operations() if op.type.startswith("ResourceApply")]
    assert kinds == ["ResourceApplyAdam"] * (len(made.trainable_variables) - 1)


def test_nothing_is_left_on_the_optimizer():
    made = model("adam")
    before, count = dict(vars(made.optimizer)), len(made.optimizer.variables)
    trained(made, FUSED, 3)
    after = vars(made.optimizer)
    assert before.keys() == after.keys()
    assert all(after[name] is value for name, value in before.items())
    assert len(made.optimizer.variables) == count


@pytest.mark.parametrize("optimizer", WITHOUT)
def test_optimizers_without_such_a_kernel(optimizer: str):
    made = model(WITHOUT[optimizer]())
    assert count_fusable_weights(made.optimizer) == 0
    with pytest.raises(EditRefused, match=optimizer):
        check_edits(made, FUSED)


def test_weights_that_it_is_for_are_counted():
    made = model("adam")
    assert count_fusable_weights(made.optimizer) == len(made.trainable_variables)
    check_edits(made, FUSED)
