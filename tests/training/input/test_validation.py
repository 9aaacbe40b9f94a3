from __future__ import annotations

import keras
import pytest

from training.models import BATCH, N, X, Y
from uncork.training.input.validation import ValidationSetup


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return X[:4], Y[:4]


@pytest.mark.parametrize(
    ("arguments", "size", "steps"),
    [
        ({"validation_data": (X, Y), "batch_size": BATCH}, BATCH, None),
        ({"validation_data": (X, Y), "batch_size": 4, "validation_batch_size": 11}, 11, None),
        ({"validation_data": (X, Y), "batch_size": 4, "validation_steps": 3}, 4, 3),
    ],
)
def test_its_data_is_cut_as_fit_would(arguments, size, steps):
    feed = ValidationSetup.from_arguments(arguments).feed
    assert (feed.batch_size, feed.steps_per_epoch, feed.shuffle) == (size, steps, False)


def test_a_part_of_the_rows_may_be_set_aside():
    found = ValidationSetup.from_arguments(
        {"x": X, "y": Y, "validation_split": 0.5, "validation_freq": 2, "epochs": 2}
    )
    assert len(found.feed.x) == N - N // 2
    assert found.epoch_interval == 2


@pytest.mark.parametrize(
    ("arguments", "times"),
    [
        ({"epochs": 6}, 6),
        ({"epochs": 6, "validation_freq": 4}, 1),
        ({"epochs": 6, "initial_epoch": 3, "validation_freq": 2}, 2),  # after the 4th and the 6th
    ],
)
def test_it_comes_round_as_often_as_keras_would_have_it(arguments, times):
    assert (
        ValidationSetup.from_arguments({"validation_data": (X, Y), **arguments}).validation_count
        == times
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"validation_data": None, "validation_split": 0.0},
        {"validation_data": Batches()},
        {"validation_data": (x for x in ())},
        {"validation_data": (X, Y), "validation_freq": [2, 5]},
        {"validation_data": (X, Y), "validation_freq": 4, "epochs": 3},
    ],
)
def test_what_is_left_alone(arguments):
    assert ValidationSetup.from_arguments(arguments) is None
