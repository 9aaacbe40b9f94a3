"""Small weights updated as one vector: the same bits in weights and state."""

from __future__ import annotations

import os
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import FlatUpdates, JitCompile, StepsPerExecution
from uncork.training.optimizer.flat_updates import FlatGroup, count_small_weights, wrap_callbacks
from uncork.training.run.edit_checks import check_edits
from uncork.training.run.planned_step import PlannedStep
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import read_weights

K = keras.optimizers
STEPS, BATCH = 200, 8
AT_ONCE = (FlatUpdates(),)

OPTIMIZERS: dict[str, Any] = {
    "adam": lambda: K.Adam(0.01),
    "amsgrad, clipped by value": lambda: K.Adam(0.01, amsgrad=True, clipvalue=0.05),
    "adamw, clipped by norm": lambda: K.AdamW(0.01, weight_decay=0.02, clipnorm=0.5),
    "nadam": lambda: K.Nadam(0.01),
    "adamax": lambda: K.Adamax(0.01),
    "lion": lambda: K.Lion(0.001, weight_decay=0.01),
    "ftrl": lambda: K.Ftrl(0.05),
    "nesterov": lambda: K.SGD(0.05, momentum=0.9, nesterov=True),
    "adam, clipped by global norm": lambda: K.Adam(0.01, global_clipnorm=0.5),
    "schedule": lambda: K.Adam(K.schedules.CosineDecay(0.01, STEPS)),
}

REWRITTEN: dict[str, Any] = {
    "momentum, clipped by global norm": lambda: K.SGD(0.05, momentum=0.9, global_clipnorm=1.0),
    "adagrad": lambda: K.Adagrad(0.05),
    "adadelta": lambda: K.Adadelta(0.5),
    "rmsprop": lambda: K.RMSprop(0.003),
    "rmsprop, centered, momentum": lambda: K.RMSprop(0.003, momentum=0.9, centered=True),
}


def some(optimizers: dict[str, Any]) -> list[str]:
    """Every third; all of them where many examples are asked for, as for the properties."""
    return list(optimizers)[:: 1 if "UNCORK_EXAMPLES" in os.environ else 3]


def model(optimizer: Any, *, large: bool = True, build: bool = True) -> Any:
    """Deep and narrow, a table and a wide layer among its weights, one of them held in bounds.

    Of an optimizer that is built, the step is traced once, otherwise twice.
    """
    keras.utils.set_random_seed(3)
    words = keras.Input((4,), dtype="int32")
    x = keras.layers.Flatten()(keras.layers.Embedding(50, 4)(words))
    for width in (16, 8, 8):
        x = keras.layers.Dense(width, activation="tanh")(x)
    if large:
        x = keras.layers.Dense(70_000 // 8, activation="tanh")(x)
    x = keras.layers.Dense(4, kernel_constraint="max_norm")(x)
    made = keras.Model(words, keras.layers.Dense(1)(x))
    made.compile(optimizer, "mse")
    if build:
        made.optimizer.build(made.trainable_variables)
    return made


def data(steps: int = STEPS) -> tf.data.Dataset:
    draw = np.random.default_rng(5)
    words = draw.integers(0, 50, (20 * BATCH, 4)).astype("int32")
    labels = draw.normal(size=(20 * BATCH, 1)).astype("float32")
    whole = tf.data.Dataset.from_tensor_slices((words, labels)).batch(BATCH)
    return whole.repeat().take(steps)


def trained(made: Any, edits: Any, steps: int = STEPS) -> list[np.ndarray]:
    if not made.optimizer.built:
        made.optimizer.build(made.trainable_variables)
    with StepSettings(made, edits).active():
        made.fit(data(steps), verbose=0, epochs=1)
    return read_weights(made)


def equal(ours: list[np.ndarray], theirs: list[np.ndarray]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(ours, theirs, strict=True))


@pytest.mark.every(4)
@pytest.mark.parametrize("optimizer", some(OPTIMIZERS))
def test_weights_and_state_are_equal_bit_for_bit(optimizer: str) -> None:
    make = OPTIMIZERS[optimizer]
    assert equal(trained(model(make()), AT_ONCE), trained(model(make()), ()))


@pytest.mark.every(2)
@pytest.mark.parametrize("optimizer", some(REWRITTEN))
def test_what_tensorflow_rewrites_is_rounded_otherwise(optimizer: str) -> None:
    """A root in a divisor becomes a reciprocal root, of which vector units give an estimate."""
    make = REWRITTEN[optimizer]
    ours, theirs = (trained(model(make()), edits, steps=20) for edits in (AT_ONCE, ()))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.deep
def test_also_in_groups_of_steps_and_without_a_large_weight() -> None:
    chained = (StepsPerExecution(steps=10),)
    ours = trained(model("adam", large=False), (*chained, *AT_ONCE))
    assert equal(ours, trained(model("adam", large=False), chained))


@pytest.mark.deep
def test_the_state_goes_back_and_forth_in_the_middle_of_a_training() -> None:
    mixed, plain = model("nadam"), model("nadam")
    settings = [StepSettings(mixed, edits) for edits in ((), AT_ONCE)]
    for turn in (1, 0, 1):
        with settings[turn].active():
            mixed.fit(data(20), verbose=0)
        plain.fit(data(20), verbose=0)
        assert equal(read_weights(mixed), read_weights(plain))


def test_nothing_is_left_on_the_optimizer() -> None:
    made = model("adam")
    made.optimizer.build(made.trainable_variables)
    before, count = dict(vars(made.optimizer)), len(made.optimizer.variables)
    trained(made, AT_ONCE, steps=3)
    after = vars(made.optimizer)
    assert before.keys() == after.keys()
    assert all(after[name] is value for name, value in before.items())
    assert len(made.optimizer.variables) == count


class Looking(keras.callbacks.Callback):
    """Looks at the optimizer's state, changes it, and stops the training with an error."""

    def __init__(self, fail_at: int = 99) -> None:
        super().__init__()
        self.fail_at = fail_at
        self.seen: list[list[np.ndarray]] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 2:
            for slot in self.model.optimizer.variables[2:6]:
                slot.assign(slot * 0.5)

    def on_test_begin(self, logs: Any = None) -> None:
        self.seen.append(read_weights(self.model))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seen.append(read_weights(self.model))
        if epoch == self.fail_at:
            raise RuntimeError("the user's own")


def run(edits: Any, looking: Any) -> Any:
    """As ``uncork run`` trains."""
    made = model("adam")
    planned = PlannedStep(made, edits)
    callbacks = wrap_callbacks(planned.flat_group, looking) if planned.flat_group else [looking]
    with planned.active():
        fit(made, callbacks)
    return made


def fit(made: Any, callbacks: Any) -> None:
    made.fit(data().take(10), epochs=4, validation_data=data(2), callbacks=callbacks, verbose=0)


def test_callbacks_find_the_state_where_keras_has_it_and_may_change_it() -> None:
    ours, theirs = Looking(), Looking()
    first, second = run(AT_ONCE, ours), run((), theirs)
    assert len(ours.seen) == len(theirs.seen) == 8
    assert all(equal(a, b) for a, b in zip(ours.seen, theirs.seen, strict=True))
    assert equal(read_weights(first), read_weights(second))


@pytest.mark.deep
def test_another_training_afterwards_knows_nothing_of_the_group() -> None:
    """Keras keeps what it has traced: a plan's step must not stay on the model."""
    made, plain = run(AT_ONCE, Looking()), run((), Looking())
    for each in (made, plain):
        fit(each, [])
    assert equal(read_weights(made), read_weights(plain))


@pytest.mark.deep
def test_in_one_call_after_the_other_it_is_traced_once() -> None:
    made, plain, traced = model("adam", build=False), model("adam", build=False), []
    planned = PlannedStep(made, AT_ONCE)
    for _ in range(2):
        assert planned.is_valid_for(made)
        with planned.active():
            fit(made, wrap_callbacks(planned.flat_group, []))
            traced.append(made.train_function)
        assert made.train_function is None
        fit(plain, [])
    assert traced[0] is traced[1]
    assert equal(read_weights(made), read_weights(plain))
    made.compile(optimizer=made.optimizer, loss="mse")
    assert not planned.is_valid_for(made)


def test_an_error_leaves_the_state_as_of_the_last_step() -> None:
    made = model("adam")
    looking = Looking(fail_at=1)
    group = FlatGroup(made)
    assert group is not None
    with pytest.raises(RuntimeError, match="own"), group.active():
        fit(made, wrap_callbacks(group, [looking]))
    plain = model("adam")
    with pytest.raises(RuntimeError, match="own"):
        fit(plain, [Looking(fail_at=1)])
    assert equal(read_weights(made), read_weights(plain))
    assert "_backend_update_step" not in vars(made.optimizer)


def test_no_memory_to_lay_the_state_back_leaves_the_optimizer_its_own() -> None:
    made = model("adam")
    made.optimizer.build(made.trainable_variables)
    before = dict(vars(made.optimizer))
    group = FlatGroup(made)
    assert group is not None

    def no_memory() -> None:
        raise MemoryError

    group.scatter = no_memory  # type: ignore[method-assign]
    with pytest.raises(MemoryError), group.active():
        made.fit(data(2), verbose=0)
    assert all(vars(made.optimizer)[name] is value for name, value in before.items())
    assert "_backend_update_step" not in vars(made.optimizer)


def test_two_sets_of_weights_for_one_optimizer_are_refused() -> None:
    class InTurns(keras.Model):
        """Updates its first half, then its second, by the one optimizer it has."""

        def train_step(self, batch: Any) -> Any:
            x, y = batch
            with tf.GradientTape(persistent=True) as tape:
                loss = tf.reduce_mean((y - self(x, training=True)) ** 2)
            for half in (self.trainable_variables[:8], self.trainable_variables[8:]):
                self.optimizer.apply(tape.gradient(loss, half), half)
            return {"loss": loss}

    inputs = keras.Input((4,))
    x = inputs
    for _ in range(8):
        x = keras.layers.Dense(4)(x)
    made = InTurns(inputs, x)
    made.compile("adam", "mse")
    made.optimizer.build(made.trainable_variables)
    with pytest.raises(EditRefused, match="other weights"), StepSettings(made, AT_ONCE).active():
        made.fit(np.ones((8, 4)), np.ones((8, 4)), verbose=0)
    assert "_backend_update_step" not in vars(made.optimizer)


@pytest.mark.deep
def test_a_checkpoint_goes_on_without_it(tmp_path: Any) -> None:
    made = model("adam")
    trained(made, AT_ONCE, steps=20)
    made.save(tmp_path / "half.keras")
    loaded = keras.models.load_model(tmp_path / "half.keras")
    assert equal(trained(loaded, (), steps=20), trained(model("adam"), (), steps=40))


@pytest.mark.parametrize(
    "optimizer",
    [
        K.SGD(0.1),
        K.Lamb(),
        K.Adafactor(),
        K.Adam(use_ema=True),
        K.Adam(gradient_accumulation_steps=2),
        K.LossScaleOptimizer(K.Adam()),
        type("Own", (K.Adam,), {})(),
    ],
    ids=lambda o: type(o).__name__,
)
def test_other_optimizers_are_left_alone(optimizer: Any) -> None:
    made = model(optimizer)
    optimizer.build(made.trainable_variables)
    assert count_small_weights(optimizer) == 0
    with pytest.raises(EditRefused):
        check_edits(made, AT_ONCE)


def test_few_small_weights_are_updated_as_ever() -> None:
    made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    made.compile("adam", "mse")
    made.optimizer.build(made.trainable_variables)
    assert count_small_weights(made.optimizer) == 0
    with StepSettings(made, AT_ONCE).active():
        made.fit(np.ones((8, 4)), np.ones((8, 1)), verbose=0)


@pytest.mark.deep
def test_xla_takes_it_too() -> None:
    ends = []
    for edits in ((JitCompile(),), (*AT_ONCE, JitCompile())):
        keras.utils.set_random_seed(4)
        dense = keras.Sequential([keras.Input((4,)), *(keras.layers.Dense(4) for _ in range(6))])
        dense.compile("adam", "mse")
        with StepSettings(dense, edits).active():
            dense.fit(np.ones((8, 4)), np.ones((8, 4)), epochs=5, verbose=0)
        ends.append(read_weights(dense))
    for with_it, without in zip(*ends, strict=True):
        np.testing.assert_allclose(with_it, without, rtol=1e-4, atol=1e-6)


def test_a_callback_list_is_refused() -> None:
    made = model("adam")
    group = FlatGroup(made)
    assert group is not None
    with pytest.raises(EditRefused, match="CallbackList"):
        wrap_callbacks(group, keras.callbacks.CallbackList([], model=made))


class Freezing(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 2:
            self.model.layers[3].trainable = False
            self.model.make_train_function(force=True)


class Halving(keras.callbacks.Callback):
    """Writes the optimizer's state where nothing is trained any more."""

    def on_train_end(self, logs: Any = None) -> None:
        for slot in self.model.optimizer.variables[2:6]:
            slot.assign(slot * 0.5)


@pytest.mark.deep
@pytest.mark.every(2)
@pytest.mark.parametrize("callback", [Freezing, Halving])
def test_layers_may_be_frozen_and_state_be_written_by_callbacks(callback: Any) -> None:
    ours, theirs = run(AT_ONCE, callback()), run((), callback())
    assert equal(read_weights(ours), read_weights(theirs))
    for each in (ours, theirs):
        fit(each, [])
    assert equal(read_weights(ours), read_weights(theirs))


class Repeating(keras.callbacks.Callback):
    """Trains on some examples again, at the ends and beginnings of epochs, and by a nested fit."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.again()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.again()
        self.again()

    def again(self) -> None:
        words, labels = next(iter(data(1)))
        self.model.train_on_batch(words, labels)


@pytest.mark.deep
def test_steps_that_a_callback_makes_are_not_forgotten() -> None:
    ours, theirs = run(AT_ONCE, Repeating()), run((), Repeating())
    assert equal(read_weights(ours), read_weights(theirs))
    assert not {"fit", "train_on_batch"} & vars(ours).keys()


class Saving(keras.callbacks.Callback):
    """Like a handler of a signal: saves in the middle of an epoch, from no hook that is known."""

    def __init__(self, path: Any) -> None:
        super().__init__()
        self.path = path

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 6:
            self.model.save_weights(self.path)


def test_what_is_saved_in_mid_epoch_has_the_state_of_its_weights(tmp_path: Any) -> None:
    found = []
    for name, edits in (("ours", AT_ONCE), ("theirs", ())):
        path = tmp_path / f"{name}.weights.h5"
        run(edits, Saving(path))
        loaded = model("adam")
        loaded.optimizer.build(loaded.trainable_variables)
        loaded.load_weights(path)
        found.append(read_weights(loaded))
    assert equal(*found)


class Nested(keras.callbacks.Callback):
    """A fit within a fit, whose own callback trains on some examples."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        again = Repeating()
        self.model.fit(data(3), callbacks=[again], verbose=0)


@pytest.mark.deep
def test_steps_within_a_nested_fit_are_not_forgotten() -> None:
    ours, theirs = run(AT_ONCE, Nested()), run((), Nested())
    assert equal(read_weights(ours), read_weights(theirs))
    assert not {"fit", "train_on_batch"} & vars(ours).keys()


def test_a_method_that_the_user_set_on_the_model_stays() -> None:
    made = model("adam")
    own = made.train_on_batch
    object.__setattr__(made, "train_on_batch", own)
    with PlannedStep(made, AT_ONCE).active():
        assert vars(made)["train_on_batch"] is not own
    assert vars(made)["train_on_batch"] is own
