"""Tables of which the rows of a batch alone are read and updated: the same bits as Keras's."""

from __future__ import annotations

import functools
import os
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import (
    DtypePolicy,
    FlatUpdates,
    FusedUpdates,
    JitCompile,
    LargerBatch,
    RowUpdates,
    StepsPerExecution,
)
from uncork.training.optimizer.row_updates import count_row_tables
from uncork.training.run.edit_checks import check_edits
from uncork.training.run.planned_step import PlannedStep
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import read_weights

K = keras.optimizers
ROWS, BATCH = 90, 8
BY_ROWS = (RowUpdates(),)

SAME: dict[str, Any] = {
    "adagrad": lambda: K.Adagrad(0.1),
    "adagrad, from nothing, clipped": lambda: K.Adagrad(
        0.1, initial_accumulator_value=0.0, epsilon=1e-3, clipnorm=0.5
    ),
    "adagrad, by a schedule, clipped by value": lambda: K.Adagrad(
        K.schedules.CosineDecay(0.1, 150), clipvalue=0.02
    ),
    "sgd": lambda: K.SGD(0.1),
}
OTHERS: dict[str, Any] = {
    "whether Adam leaves rows": K.Adam,
    "whether RMSprop leaves rows": K.RMSprop,
    "whether Nadam leaves rows": K.Nadam,
    "whether Adadelta leaves rows": K.Adadelta,
    "whether Ftrl leaves rows": K.Ftrl,
    "whether Own leaves rows": lambda: Own(0.1),
    "momentum of SGD": lambda: K.SGD(momentum=0.9),
    "without epsilon": lambda: K.Adagrad(epsilon=0.0),
    "weight_decay decays": lambda: K.Adagrad(weight_decay=0.01),
    "use_ema averages": lambda: K.SGD(use_ema=True),
    "gradient_accumulation_steps accumulates": lambda: K.Adagrad(gradient_accumulation_steps=2),
    "global_clipnorm creates": lambda: K.Adagrad(global_clipnorm=1.0),
    "loss_scale_factor creates": lambda: K.Adagrad(loss_scale_factor=8.0),
}


class Own(K.Adagrad):
    """Somebody's: what its update does nobody knows."""


def model(optimizer: Any, policy: str = "float32", **table: Any) -> Any:
    """One table for two inputs, another one in a model inside, and layers."""
    keras.utils.set_random_seed(3)
    layers = keras.layers
    words, topic = keras.Input((4,), dtype="int32"), keras.Input((1,), dtype="float32")
    known = layers.Embedding(ROWS, 5, dtype=policy, **table)
    inner = keras.Sequential([layers.Embedding(ROWS + 1, 3, dtype=policy, **table)])
    both = [known(words), known(topic), inner(words)]
    x = layers.Concatenate(dtype=policy)([layers.Flatten(dtype=policy)(each) for each in both])
    for _ in range(4):
        x = layers.Dense(8, activation="tanh", dtype=policy)(x)
    made = keras.Model([words, topic], layers.Dense(1, dtype=policy)(x))
    made.compile(optimizer, "mse")
    made.optimizer.build(made.trainable_variables)
    made.optimizer.build(made.trainable_variables)
    return made


def data(steps: int) -> tf.data.Dataset:
    """Words are looked up several times in a batch, some from the end of the table."""
    draw = np.random.default_rng(5)
    words = (ROWS * draw.random((10 * BATCH, 4)) ** 3).astype("int32")
    words[::3] -= ROWS
    topic = draw.integers(0, ROWS, (10 * BATCH, 1)).astype("float32")
    labels = draw.normal(size=(10 * BATCH, 1)).astype("float32")
    whole = tf.data.Dataset.from_tensor_slices(((words, topic), labels)).batch(BATCH)
    return whole.repeat().take(steps)


def trained(made: Any, edits: Any, steps: int) -> list[np.ndarray]:
    with StepSettings(made, edits).active():
        made.fit(data(steps), verbose=0)
    return read_weights(made)


def is_same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(ours, theirs, strict=True))


@functools.cache
def as_written(optimizer: str, steps: int) -> list[np.ndarray]:
    """What Keras makes of it."""
    return trained(model(SAME[optimizer]()), (), steps)


def some(optimizers: dict[str, Any]) -> list[str]:
    """The first and the last; all where many examples are asked for, as for the properties."""
    names = list(optimizers)
    return names if "UNCORK_EXAMPLES" in os.environ else [names[0], names[-1]]


@pytest.mark.every(2)
@pytest.mark.parametrize("optimizer", some(SAME))
def test_after_two_hundred_steps_every_bit_is_the_same(optimizer: str) -> None:
    made = model(SAME[optimizer]())
    begun = read_weights(made)
    ours, theirs = trained(made, BY_ROWS, 200), as_written(optimizer, 200)
    assert is_same(ours, theirs)
    assert not is_same(theirs, begun), "the steps did something"


def test_beside_updates_and_steps_in_one() -> None:
    made = model(K.Adagrad(0.1))
    edits = (StepsPerExecution(steps=5), FlatUpdates(), *BY_ROWS)
    assert is_same(trained(made, edits, 200), as_written("adagrad", 200))


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "other",
    [
        DtypePolicy(policy="mixed_bfloat16"),
        pytest.param(DtypePolicy(policy="mixed_float16"), marks=pytest.mark.slow),
        pytest.param(
            LargerBatch(batch_multiplier=2, learning_rate_multiplier=1.5), marks=pytest.mark.slow
        ),
    ],
)
def test_beside_other_edits(other: Any) -> None:
    ours, theirs = (
        trained(model(K.Adagrad(0.1)), edits, 20) for edits in ((other, *BY_ROWS), (other,))
    )
    assert is_same(ours, theirs)


@pytest.mark.deep
@pytest.mark.slow
def test_under_xla_as_near_as_xla_is() -> None:
    xla, edits = (JitCompile(),), (JitCompile(), *BY_ROWS)
    ours, theirs = (trained(model(K.Adagrad(0.1)), each, 10) for each in (edits, xla))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_training_goes_on_with_either_and_is_saved_as_keras_saves(tmp_path: Any) -> None:
    made = model(K.Adagrad(0.1))
    planned = PlannedStep(made, BY_ROWS)
    for _ in range(2):
        made.fit(data(50), verbose=0)
        with planned.active():
            made.fit(data(50), validation_data=data(2), verbose=0)
            made.save(tmp_path / "a.keras")
    loaded = keras.models.load_model(tmp_path / "a.keras")
    assert is_same(read_weights(loaded), as_written("adagrad", 200))


def test_a_table_that_another_layer_uses_whole_is_updated_as_ever() -> None:
    def tied() -> Any:
        keras.utils.set_random_seed(3)
        words = keras.Input((4,), dtype="int32")
        table = keras.layers.Embedding(ROWS, 5)
        x = table(words)
        made = Tied(words, keras.layers.Flatten()(x))
        made.table = table
        made.compile(K.Adagrad(0.1), "mse")
        return made

    words = np.random.default_rng(1).integers(0, ROWS, (32, 4))
    found = []
    for edits in (BY_ROWS, ()):
        made = tied()
        with StepSettings(made, edits).active():
            made.fit(words, np.zeros((32, 1)), batch_size=8, verbose=0, shuffle=False)
        found.append(read_weights(made))
    assert is_same(*found)


class Tied(keras.Model):
    """Its table is in its loss as a whole, too."""

    def compute_loss(self, x: Any, y: Any, y_pred: Any, *_: Any, **__: Any) -> Any:
        return tf.reduce_mean(y_pred**2) + tf.reduce_mean(self.table.embeddings**2)


def graph_of(made: Any, edits: Any) -> Any:
    step = tf.function(lambda x, y: made.train_step((x, y)))
    with StepSettings(made, edits).active():
        return step.get_concrete_function(*next(iter(data(1)))).graph


def test_no_op_makes_or_reads_a_whole_table() -> None:
    made = model(K.Adagrad(0.1))
    tables = {(ROWS, 5), (ROWS + 1, 3)}

    def whole(edits: Any) -> set[str]:
        ops = graph_of(made, edits).get_operations()
        made_by = [(op.type, t.shape) for op in ops for t in op.outputs]
        return {kind for kind, shape in made_by if shape.rank and tuple(shape) in tables}

    assert "ReadVariableOp" in whole(())
    assert whole(BY_ROWS) == set()


def test_nothing_is_left_on_optimizer_or_layers() -> None:
    made, call = model("adagrad"), keras.layers.Embedding.call
    before, count = dict(vars(made.optimizer)), len(made.optimizer.variables)
    with pytest.raises(KeyboardInterrupt), StepSettings(made, BY_ROWS).active():
        raise KeyboardInterrupt
    after = vars(made.optimizer)
    assert before.keys() == after.keys()
    assert all(after[name] is value for name, value in before.items())
    assert len(made.optimizer.variables) == count
    assert keras.layers.Embedding.call is call


def test_layers_of_other_models_and_other_inputs_are_keras_s() -> None:
    made, other = model("adagrad"), keras.layers.Embedding(ROWS, 5)
    ids = np.array([[1, 2, 2, 3]])
    expected = other(ids).numpy()
    ragged = tf.RaggedTensor.from_row_lengths([1, 2, 3], [1, 2])
    own = next(each for each in made.layers if isinstance(each, keras.layers.Embedding))
    with StepSettings(made, BY_ROWS).active():
        assert other(ids).numpy().tobytes() == expected.tobytes()
        assert own(ragged).shape[0] == 2


@pytest.mark.parametrize("why", OTHERS)
def test_optimizers_that_change_other_rows_are_refused(why: str) -> None:
    made = keras.Sequential([keras.Input((2,)), keras.layers.Embedding(ROWS, 2)])
    made.compile(OTHERS[why](), "mse")
    assert count_row_tables(made) == 0
    with pytest.raises(EditRefused, match=why):
        check_edits(made, BY_ROWS)


@pytest.mark.parametrize(
    "table", [{"embeddings_regularizer": "l2"}, {"embeddings_constraint": "max_norm"}], ids=str
)
def test_tables_that_more_than_the_gradient_changes_are_not_for_it(table: Any) -> None:
    made = model("adagrad", **table)
    assert count_row_tables(made) == 0
    with pytest.raises(EditRefused, match="no trainable Embedding table"):
        check_edits(made, BY_ROWS)


def test_a_frozen_table_is_not_for_it() -> None:
    made = model("adagrad")
    assert count_row_tables(made) == 2
    made.layers[2].trainable = False
    assert count_row_tables(made) == 1


def test_a_kernel_for_the_same_update_is_refused_by_its_own_check() -> None:
    with pytest.raises(EditRefused, match="Adagrad"):
        check_edits(model("adagrad"), (*BY_ROWS, FusedUpdates()))
