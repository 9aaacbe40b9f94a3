"""Whether ``fit`` shuffles arrays anew in each epoch is told as real trainings show it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.compat.random_state import random_state, set_random_state
from uncork.training.input.array_order import has_same_order_each_epoch
from uncork.training.input.feed import Feed

ROWS = np.arange(24, dtype="float32")[:, None]


@pytest.fixture(autouse=True)
def state():
    before = random_state()
    yield
    set_random_state(before)


def orders(seed: int | None, **arguments: Any) -> list[list[float]]:
    """Rows as a training of three epochs is given them."""
    tf.random.set_seed(seed)
    seen: list[float] = []

    class Watched(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            tf.py_function(lambda rows: seen.extend(rows.numpy()[:, 0].tolist()), [data[0]], [])
            return super().train_step(data)

    model = Watched([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(ROWS, ROWS, batch_size=4, epochs=3, verbose=0, **arguments)
    return [seen[at : at + len(ROWS)] for at in range(0, len(seen), len(ROWS))]


@pytest.mark.parametrize("seed", [3, None])
def test_what_is_told_is_what_fit_does(seed: int | None) -> None:
    first, second, third = orders(seed)
    is_one = first == second == third
    tf.random.set_seed(seed)
    given = {"x": ROWS, "y": ROWS, "epochs": 3}
    assert has_same_order_each_epoch(Feed.from_arguments(given), given) is is_one
    assert sorted(first) == ROWS[:, 0].tolist() != first


@pytest.mark.parametrize(
    "arguments",
    [
        {"x": ROWS, "epochs": 1},
        {"x": ROWS, "epochs": 3, "initial_epoch": 2},
        {"x": ROWS, "epochs": 3, "shuffle": False},
        {"x": tf.data.Dataset.from_tensor_slices(ROWS).batch(4), "epochs": 3},
    ],
    ids=["one epoch", "one left", "not shuffled", "a dataset"],
)
def test_it_is_not_told_of_others(arguments: dict[str, Any]) -> None:
    tf.random.set_seed(3)
    assert not has_same_order_each_epoch(Feed.from_arguments(arguments), arguments)
