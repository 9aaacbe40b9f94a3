"""Batches of several lengths under XLA: how many shapes, and what each costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import pytest
import tensorflow as tf

from uncork.core.evidence.batches import VaryingAxis
from uncork.training.input.feed import Feed
from uncork.training.run.fit_runner import FitRunner
from uncork.training.run.shape_compile_time import measure_varying_shapes, read_batch_shapes
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot


def runner(batches: list[Any]) -> FitRunner:
    model = keras.Sequential(
        [
            keras.Input((None, 8)),
            keras.layers.Dense(16, "tanh"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse", jit_compile=True)
    return FitRunner(
        StepSettings(model), Feed(None).with_resident_batches(batches), Snapshot(model), 4.0
    )


def batches(lengths: list[int]) -> list[Any]:
    return [(tf.ones((4, length, 8)), tf.ones((4, 1))) for length in lengths]


@pytest.mark.deep
def test_each_new_length_is_compiled() -> None:
    given = batches([5, 6, 5, 7, 6, 9])
    found = measure_varying_shapes(runner(given), given, step_s=0.001, seconds=60.0)
    assert found is not None
    assert (found.batch_count, found.shape_count, found.seen_once, found.seen_twice) == (6, 4, 2, 2)
    assert found.compile_s_per_shape > 0.02  # it takes a tenth of a second or two


class Counting:
    """Stands in for a runner: each new length takes a second, and steps are counted."""

    def __init__(self) -> None:
        self.ran = 0

    def execution_times(self, *, is_primed: bool) -> Iterator[float]:
        assert not is_primed
        while True:
            self.ran += 1
            yield 1.0


@pytest.mark.parametrize(("seconds", "ran"), [(0.0, 2), (1.5, 3), (60.0, 4)])
def test_it_ends_when_the_time_is_up(seconds: float, ran: int) -> None:
    running = Counting()
    given = batches([5, 6, 7, 8])
    found = measure_varying_shapes(running, given, step_s=0.25, seconds=seconds)  # type: ignore[arg-type]
    assert running.ran == ran
    assert found is not None
    assert (found.shape_count, found.compile_s_per_shape) == (4, 0.75)


def test_shapes_of_more_batches_count() -> None:
    given, more = batches([5, 6]), batches([5, 6, 7, 7, 8, 5])
    seen = [tuple(tuple(part.shape) for part in batch) for batch in more]
    found = measure_varying_shapes(Counting(), given, 0.25, 60.0, seen)  # type: ignore[arg-type]
    assert found is not None
    assert (found.batch_count, found.shape_count, found.seen_once, found.seen_twice) == (6, 4, 2, 2)


def test_what_filling_up_would_leave_of_them() -> None:
    given, lengths = batches([5, 6]), [5, 6, 7, 9, 12, 17]
    seen = [tuple(tuple(part.shape) for part in batch) for batch in batches(lengths)]
    found = measure_varying_shapes(Counting(), given, 0.25, 60.0, seen, (0.0, 0.0))  # type: ignore[arg-type]
    assert found is not None
    assert found.axes == (VaryingAxis(tensor_index=0, axis=1, max_length=17),)
    by_multiple = {each.multiple: each for each in found.padded_shapes}
    assert [by_multiple[multiple].shape_count for multiple in (8, 16, 32)] == [3, 2, 1]
    assert (by_multiple[8].seen_once, by_multiple[8].seen_twice) == (1, 1)
    rows, targets = 4 * 8, 4
    before, after = (
        rows * sum(each) + targets * len(each) for each in (lengths, [8, 8, 8, 16, 16, 17])
    )
    assert by_multiple[8].size_ratio == pytest.approx(after / before)


def test_rows_that_nobody_may_fill_up() -> None:
    given = batches([5, 6])
    found = measure_varying_shapes(Counting(), given, 0.25, 60.0)  # type: ignore[arg-type]
    assert found is not None
    assert found.axes == found.padded_shapes == ()


def test_a_last_batch_of_fewer_rows_is_no_length() -> None:
    given = [*batches([5]), (tf.ones((3, 5, 8)), tf.ones((3, 1)))]
    found = measure_varying_shapes(Counting(), given, 0.25, 60.0, (), (0.0, 0.0))  # type: ignore[arg-type]
    assert found is not None
    assert found.axes == ()


class Lengths(keras.utils.PyDataset):
    """Two batches an epoch, longer ones in each."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return batches([5 + 2 * self.epoch + index])[0]

    def on_epoch_end(self) -> None:
        self.epoch += 1


@pytest.mark.parametrize("in_one", [1, 2, 3])
def test_epochs_that_differ_are_read_one_after_the_other(
    in_one: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uncork.training.run.shape_compile_time._MOST", 6)
    model = runner(batches([5])).settings.model
    model.steps_per_execution = in_one
    found = [shape[0][1] for shape in read_batch_shapes(Feed(Lengths()), model, seconds=600.0)]
    assert sorted(found[:2]) == [5, 6]
    assert len(set(found)) == 6, "each epoch brings others"


def test_one_length_is_nothing_to_look_at() -> None:
    given = batches([5, 5, 5])
    assert measure_varying_shapes(runner(given), given, step_s=0.001, seconds=1.0) is None
