from __future__ import annotations

import copy
import itertools
import os
import pickle
import tempfile
import threading
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.edits.edit import LoaderCache, LoaderWorkers
from uncork.pycode.purity.reachability import loader_digest
from uncork.training.input import loader_costs as loaders
from uncork.training.input.feed import Feed
from uncork.training.input.loader_costs import measure_loader_stages
from uncork.training.input.loader_edits import (
    apply_loader_edits,
    check_loader,
    copy_with_edits,
    fill_loader,
)


class Sleeping(keras.utils.PyDataset):
    """Waits as for a disk: the interpreter is free meanwhile."""

    def __init__(self, **settings):
        super().__init__(**settings)

    def __len__(self):
        return 12

    def __getitem__(self, index):
        time.sleep(0.02)
        return np.full((2, 3), index, "float32"), np.full(2, index)


def edit(dataset, workers=3):
    return LoaderWorkers(workers=workers, expected_digest=loader_digest(dataset))


def test_a_trial_works_on_a_copy():
    mine = Sleeping()
    other = copy_with_edits(mine, (edit(mine),))
    assert (other.workers, mine.workers) == (3, 1)
    assert other.max_queue_size >= 6


def test_the_settings_are_given_back():
    mine = Sleeping(max_queue_size=4)
    with apply_loader_edits(mine, (edit(mine),)):
        assert (mine.workers, mine.max_queue_size) == (3, 6)
    assert (mine.workers, mine.max_queue_size) == (1, 4)


def test_no_edit_touches_nothing():
    with apply_loader_edits(np.zeros(3), ()):
        pass


def test_another_loader_is_refused():
    with pytest.raises(EditRefused, match="the code and settings of Sleeping"):
        check_loader(Sleeping(), LoaderWorkers(workers=2, expected_digest="another"))


@pytest.mark.parametrize("own", [{"workers": 2}, {"use_multiprocessing": True}])
def test_workers_of_the_users_own_are_kept(own):
    mine = Sleeping(**own)
    with pytest.raises(EditRefused, match="already sets workers"):
        check_loader(mine, edit(mine))


class Clock:
    """A fake clock that only waiting moves: where two threads wait at once, once."""

    def __init__(self):
        self.now = 0.0
        self.waited_in_threads = 0
        self._both = threading.Barrier(2)

    def perf_counter(self):
        return self.now

    process_time = perf_counter

    def sleep(self, seconds):
        if threading.current_thread() is threading.main_thread():
            self.now += seconds
        elif self._both.wait(60) == 0:
            self.waited_in_threads += 1
            self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    """Of a machine with two cores."""
    made = Clock()
    monkeypatch.setattr(loaders, "time", made)
    monkeypatch.setattr(loaders, "usable_cpus", lambda: 2.0)
    monkeypatch.setattr(time, "sleep", made.sleep)
    return made


def test_threads_are_measured_where_they_may_be_used(clock):
    (stage,) = measure_loader_stages(Feed(x=Sleeping()))
    assert not stage.is_random
    assert stage.wall_s_per_element == pytest.approx(0.02)
    assert stage.threaded_wall_s_per_element == pytest.approx(0.01)
    (own,) = measure_loader_stages(Feed(x=Sleeping(workers=2)))
    assert own.threaded_wall_s_per_element is None


def test_an_epoch_that_is_left_early_leaves_no_thread_behind():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    mine = Sleeping()
    before = threading.active_count()
    with Feed(x=copy_with_edits(mine, (edit(mine),))).open_epoch_iterator(model) as epochs:
        for _ in epochs:
            break
        assert threading.active_count() > before
    deadline = time.monotonic() + 20
    while any(t.name.startswith("Worker_") for t in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Counting(keras.utils.PyDataset):
    """Tells a file, which it does not hold, what it made."""

    def __init__(self, scale=1):
        super().__init__()
        self.scale = scale

    def __len__(self):
        return 4

    def __getitem__(self, index):
        with MADE.open("a") as file:
            file.write(f"{index} ")
        return np.full((2, 3), self.scale * index, "float32"), np.full(2, index)


MADE = Path(tempfile.mkdtemp()) / "made"


def kept(dataset):
    return copy_with_edits(
        dataset, (LoaderCache(size_bytes=1000, expected_digest=loader_digest(dataset)),)
    )


def epoch(dataset):
    dataset.on_epoch_begin()
    return [float(dataset[index][0].sum()) for index in range(4)]


def test_batches_are_made_once():
    MADE.unlink(missing_ok=True)
    loader = kept(Counting())
    assert epoch(loader) == epoch(loader) == [0, 6, 12, 18]
    assert MADE.read_text() == "0 1 2 3 "


def test_they_are_made_anew_where_anything_has_changed():
    loader = kept(Counting())
    before = epoch(loader)
    loader.scale = 2
    assert epoch(loader) == [2 * total for total in before]


def test_what_cannot_be_digested_any_more_is_made_every_time():
    loader = kept(Counting())
    epoch(loader)
    loader.scale = 3
    loader.lock = threading.Lock()
    assert epoch(loader) == [0, 18, 36, 54]
    loader.scale = 1
    assert epoch(loader) == [0, 6, 12, 18]


def test_a_filled_loader_stays_filled():
    MADE.unlink(missing_ok=True)
    loader = kept(Counting())
    fill_loader(loader, 10.0)
    epoch(loader)
    assert MADE.read_text() == "0 1 2 3 "


def test_the_users_own_class_is_given_back():
    mine = Counting()
    with apply_loader_edits(
        mine, (LoaderCache(size_bytes=1000, expected_digest=loader_digest(mine)),)
    ):
        assert type(mine) is not Counting
        assert isinstance(mine, Counting)
    assert type(mine) is Counting


class Reshuffling(Counting):
    def on_epoch_end(self):
        self.scale += 1


class Endless(Counting):
    num_batches = None


@pytest.mark.parametrize("loader", [Reshuffling, Endless])
def test_what_changes_between_epochs_is_not_kept(loader):
    with pytest.raises(EditRefused, match="changes between epochs"):
        kept(loader())


class Quiet(Counting):
    def __getitem__(self, index):
        return np.full((2, 3), self.scale * index, "float32"), np.full(2, index)


class QuietlyReshuffling(Quiet):
    on_epoch_end = Reshuffling.on_epoch_end


@pytest.mark.parametrize(
    ("loader", "is_kept"), [(Quiet, True), (QuietlyReshuffling, False), (Counting, False)]
)
def test_what_keeping_would_take_is_told(loader, is_kept):
    (stage,) = measure_loader_stages(Feed(x=loader()))
    assert (stage.memoization is not None) is is_kept
    if is_kept:
        assert stage.memoization.total_bytes == 4 * (2 * 3 * 4 + 2 * 8)


class Beginning(Quiet):
    def on_epoch_begin(self):
        self.scale += 1


def test_a_loader_that_begins_epochs_itself_gets_no_workers():
    """Keras lets workers make batches before it calls the loader's own hook."""
    loader = Beginning()
    (stage,) = measure_loader_stages(Feed(x=loader))
    assert stage.threaded_wall_s_per_element is None
    edit = LoaderWorkers(workers=2, expected_digest=loader_digest(loader))
    with pytest.raises(EditRefused, match="overrides on_epoch_begin"):
        check_loader(loader, edit)


def test_what_is_handed_out_is_a_copy():
    loader = kept(Counting())
    before = epoch(loader)
    loader[1][0][:] = 100.0
    assert epoch(loader) == before


def test_no_more_is_kept_than_was_seen_to_be_needed():
    MADE.unlink(missing_ok=True)
    mine = Counting()
    size = 2 * 3 * 4 + 2 * 8
    loader = copy_with_edits(
        mine, (LoaderCache(size_bytes=2 * size, expected_digest=loader_digest(mine)),)
    )
    assert epoch(loader) == epoch(loader)
    assert MADE.read_text() == "0 1 2 3 2 3 "


class Sometimes(Counting):
    """Draws, but not for the batches that were looked at."""

    def __getitem__(self, index):
        rows, labels = super().__getitem__(index)
        return rows + (np.random.normal() if index == 2 else 0), labels


def test_a_batch_that_draws_is_not_kept():
    loader = kept(Sometimes())
    first, second = epoch(loader), epoch(loader)
    assert first[2] != second[2]
    assert [first[i] for i in (0, 1, 3)] == [second[i] for i in (0, 1, 3)]


class Slicing(Counting):
    def __getitem__(self, index):
        return [self[i] for i in range(4)[index]] if isinstance(index, slice) else index


def test_what_is_no_index_is_passed_on():
    loader = kept(Slicing())
    loader.on_epoch_begin()
    assert loader[1:3] == [1, 2]


def test_it_is_pickled_as_what_it_is():
    mine = Counting(scale=5)
    with apply_loader_edits(
        mine, (LoaderCache(size_bytes=1000, expected_digest=loader_digest(mine)),)
    ):
        again = pickle.loads(pickle.dumps(mine))
        copied = copy.copy(mine)
    assert type(again) is type(copied) is Counting
    assert again.scale == copied.scale == 5


def test_a_class_that_cannot_be_extended_is_refused():
    class Demanding(Counting):
        def __init_subclass__(cls, *, name):
            del name

    mine = Demanding()
    with pytest.raises(EditRefused, match="cannot derive a class from Demanding"):
        check_loader(mine, LoaderCache(size_bytes=1000, expected_digest=loader_digest(mine)))


def test_a_loader_that_fails_in_threads_is_described_all_the_same(clock, monkeypatch):
    def racing(seconds):
        clock.sleep(seconds)
        if clock.waited_in_threads:
            raise RuntimeError("not made for threads")

    monkeypatch.setattr(time, "sleep", racing)
    (stage,) = measure_loader_stages(Feed(x=Sleeping()))
    assert clock.waited_in_threads
    assert stage.threaded_wall_s_per_element is None
    assert stage.memoization.total_bytes == 12 * (2 * 3 * 4 + 2 * 8)


def test_a_training_that_is_stopped_leaves_no_thread_behind():
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = True

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    mine = Sleeping()
    with apply_loader_edits(mine, (edit(mine),)):
        model.fit(mine, epochs=2, verbose=0, callbacks=[Stop()])
    deadline = time.monotonic() + 20
    while any(t.name.startswith("Worker_") for t in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_has_changed_is_made_twice_before_it_is_kept():
    """It may draw now what it did not when that was looked at, and nothing tells of it."""
    MADE.unlink(missing_ok=True)
    loader = kept(Counting())
    epoch(loader)
    loader.scale = 2
    assert epoch(loader) == epoch(loader) == epoch(loader) == [0, 12, 24, 36]
    assert MADE.read_text() == 3 * "0 1 2 3 "


class Drawing(Counting):
    """From a state that nobody can see, once it is told to."""

    def __getitem__(self, index):
        drawn = int.from_bytes(os.urandom(2), "big") if self.scale > 1 else 0
        return np.full((2, 3), drawn + index, "float32"), np.full(2, index)


def test_what_gives_something_else_is_not_kept():
    loader = kept(Drawing())
    assert epoch(loader) == epoch(loader)
    loader.scale = 2
    found = [epoch(loader) for _ in range(4)]
    assert all(a != b for a, b in itertools.combinations(found, 2))


class Flipping(Counting):
    """Of two ways one, from a state that nobody can see, once it is told to."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        flipped = os.urandom(1)[0] % 2 if self.scale > 1 else 0
        return np.full((2, 3), flipped * 100 + index, "float32"), np.full(2, index)


def test_what_comes_out_the_same_by_chance_is_not_kept():
    loader = kept(Flipping())
    loader.scale = 2  # as a callback does before the first epoch
    found = []
    for _ in range(8):
        loader.on_epoch_begin()
        found.append(tuple(float(loader[index][0].sum()) for index in range(40)))
    assert len(set(found)) == 8


def test_a_loader_in_threads_is_pickled_as_what_it_is():
    loader = copy_with_edits(Growing(), (edit(Growing(), workers=2),))
    assert type(pickle.loads(pickle.dumps(loader))) is Growing
    assert type(copy.copy(loader)) is Growing


def test_what_is_set_in_the_middle_of_an_epoch_is_seen_at_once():
    loader = kept(Counting())
    epoch(loader)
    loader.on_epoch_begin()
    assert loader[1][0].sum() == 6
    loader.scale = 2
    assert loader[1][0].sum() == 12
    assert loader[2][0].sum() == 24


class Noting(keras.Model):
    def __init__(self):
        super().__init__()
        self.seen = []

    def train_step(self, data):
        self.seen.append(int(data[0][0, 0]))
        return {"loss": 0.0}


class Growing(keras.utils.PyDataset):
    """Has more batches in each epoch, and tells in which one it made a batch."""

    def __init__(self):
        super().__init__()
        self.epoch = 1

    def __len__(self):
        return 3 * self.epoch

    def __getitem__(self, index):
        return np.full((1, 2), self.epoch * 100 + index, "float32"), np.zeros(1)

    def on_epoch_end(self):
        self.epoch += 1


def test_workers_leave_no_batch_of_an_epoch_for_the_next():
    seen = []
    for edits in (lambda loader: (), lambda loader: (edit(loader, workers=2),)):
        loader, model = Growing(), Noting()
        model.compile("sgd", run_eagerly=True)
        with apply_loader_edits(loader, edits(loader)):
            model.fit(loader, epochs=4, verbose=0, shuffle=False)
        seen.append(model.seen)
        assert type(loader) is Growing
    assert seen[1] == seen[0]


class Quick(keras.utils.PyDataset):
    """So that workers have made all of it before anybody asks."""

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return np.full((2, 3), index, "float32"), np.full((2, 1), index, "float32")


class Reading(keras.Model):
    """Notes which batches it is given."""

    def __init__(self):
        super().__init__()
        self.seen = {"train": [], "test": []}

    def train_step(self, data):
        self.seen["train"].append(int(data[0][0, 0]))
        return {"loss": 0.0}

    def test_step(self, data):
        self.seen["test"].append(int(data[0][0, 0]))
        return {"loss": 0.0}


def test_an_evaluation_of_some_steps_begins_anew_each_time():
    """What workers had made by then must not be what the next one is given first."""
    mine, model = Quick(), Reading()
    model.compile("sgd", run_eagerly=True)
    with apply_loader_edits(mine, (edit(mine),)):
        model.fit(
            mine,
            shuffle=False,
            validation_data=mine,
            validation_steps=5,
            epochs=3,
            verbose=0,
        )
    assert model.seen == {"train": [*range(20)] * 3, "test": [*range(5)] * 3}


class OfTensors(Quiet):
    def __getitem__(self, index):
        texts = np.array(["abc"] * 2, dtype=object)
        return tf.fill([2, 50], float(index)), texts


def test_tensors_and_texts_count_too():
    (stage,) = measure_loader_stages(Feed(x=OfTensors()))
    assert stage.memoization.total_bytes == 4 * (2 * 50 * 4 + 2 * 3)
    mine = OfTensors()
    few = LoaderCache(size_bytes=2 * (400 + 6), expected_digest=loader_digest(mine))
    with apply_loader_edits(mine, (few,)):
        assert [float(mine[i][0][0, 0]) for i in (0, 1, 2, 3)] == [0.0, 1.0, 2.0, 3.0]
        assert len(mine.__class__.__getitem__.__closure__[0].cell_contents._batches) == 2


class OfRows(Quiet):
    def __getitem__(self, index):
        return tf.ragged.constant([[1.0], [2.0, 3.0]]), np.zeros(2, "float32")


def test_rows_of_unequal_length_count_as_their_values_and_splits():
    (stage,) = measure_loader_stages(Feed(x=OfRows()))
    assert stage.bytes_per_element == 3 * 4 + 3 * 8 + 2 * 4
