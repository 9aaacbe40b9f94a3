"""Small trainings, and steps that lie about what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from uncork.training.input.feed import Feed
from uncork.training.run.replay import BatchRecording
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot
from uncork.verify.provers.fit_step import StepProver

BATCH = 16
BUDGET_S = 2.0

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(512, 16)).astype(np.float32)
Y = np.argmax(X @ _RNG.normal(size=(16, 5)) + 0.3 * _RNG.normal(size=(512, 5)), axis=1)


def mlp(*between: Any, optimizer: Any = "adam", dtype: str = "float32") -> keras.Model:
    """Two dense layers with others in between."""
    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((16,)),
            layers.Dense(32, activation="relu", dtype=dtype),
            *between,
            layers.Dense(5, dtype=dtype),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    return model


def feed() -> Feed:
    return Feed(x=X, y=Y, batch_size=BATCH)


def prover(model: keras.Model) -> StepProver:
    snapshot = Snapshot(model)
    recording = BatchRecording.from_feed(feed(), model, max_batches=24, max_bytes=1 << 28)
    return StepProver(StepSettings(model), snapshot, recording)


class Lying(StepSettings):
    """Settings that do more than they say.

    Args:
        model: As always.
        edits: What they say.
        enter: Done to the model before its step is made.
        leave: Undoes it.
        around: Takes the place of the train function.
    """

    def __init__(
        self,
        model: Any,
        edits: tuple[Any, ...] = (),
        *,
        enter: Callable[[Any], None] = lambda model: None,
        leave: Callable[[Any], None] = lambda model: None,
        around: Callable[[Any], Any] = lambda function: function,
    ) -> None:
        super().__init__(model, edits)
        self._enter, self._leave, self._around = enter, leave, around

    @contextmanager
    def active(self) -> Iterator[None]:
        self._enter(self.model)
        try:
            with super().active():
                self.model.train_function = self._around(self.model.train_function)
                yield
        finally:
            self._leave(self.model)


def faster_learning(model: Any, factor: float, edits: tuple[Any, ...] = ()) -> Lying:
    """The learning rate itself is given back: only the weights can tell."""
    rate = float(model.optimizer.learning_rate)
    return Lying(
        model,
        edits,
        enter=lambda m: m.optimizer.learning_rate.assign(rate * factor),
        leave=lambda m: m.optimizer.learning_rate.assign(rate),
    )


def disturbed(model: Any, relative: float) -> Lying:
    """Start from weights that are a little off."""

    def enter(m: Any) -> None:
        for variable in m.trainable_variables:
            variable.assign(variable * (1 + relative))

    return Lying(model, enter=enter)


def at_call(number: int, act: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """A train function that does something else at one of its calls."""

    def around(function: Any) -> Any:
        calls = iter(range(1_000_000))

        def train(iterator: Any) -> Any:
            if next(calls) == number:
                return act(function, iterator)
            return function(iterator)

        return train

    return around


def step_left_out(model: Any) -> Lying:
    """The third step is undone."""

    def undone(function: Any, iterator: Any) -> Any:
        held = [(v, tf.identity(v.value)) for v in (*model.variables, *model.optimizer.variables)]
        logs = function(iterator)
        for variable, value in held:
            variable.assign(value)
        return logs

    return Lying(model, around=at_call(2, undone))


def step_twice(model: Any) -> Lying:
    """One step too many, on a batch that comes once more later: counts tell as well as weights."""

    def twice(function: Any, iterator: Any) -> Any:
        function(iter(tf.data.Dataset.from_tensors((X[:BATCH], Y[:BATCH]))))
        return function(iterator)

    return Lying(model, around=at_call(1, twice))


def other_batch(model: Any) -> Lying:
    """The third step trains on a batch that is not its own."""

    def elsewhere(function: Any, iterator: Any) -> Any:
        x, y = next(iterator)
        strange = tf.data.Dataset.from_tensors((x[::-1] + 1.0, y)).repeat()
        return function(iter(strange))

    return Lying(model, around=at_call(2, elsewhere))


def only_metrics(model: Any) -> Lying:
    """Counts other accuracies; the training is the same."""

    def around(function: Any) -> Any:
        def train(iterator: Any) -> Any:
            logs = function(iterator)
            for metric in model.metrics[1:]:
                for variable in metric.variables:
                    variable.assign(variable + 1)
            return logs

        return train

    return Lying(model, around=around)


def with_attribute(model: Any, owner: Any, name: str, value: Any) -> Lying:
    """Another setting of a layer or the optimizer while the step is made."""
    before = getattr(owner, name)
    return Lying(
        model,
        enter=lambda m: setattr(owner, name, value),
        leave=lambda m: setattr(owner, name, before),
    )
