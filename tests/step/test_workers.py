from __future__ import annotations

import threading
import time

import keras
import numpy as np
import pytest

from uncork.core.edit import LoaderWorkers
from uncork.core.errors import EditRefused
from uncork.step import Feed, check_loader, in_workers, loader_digest, loader_stages, working


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
    return LoaderWorkers(workers=workers, expects=loader_digest(dataset))


def test_a_trial_works_on_a_copy():
    mine = Sleeping()
    other = in_workers(mine, edit(mine))
    assert (other.workers, mine.workers) == (3, 1)
    assert other.max_queue_size >= 6


def test_the_settings_are_given_back():
    mine = Sleeping(max_queue_size=4)
    with working(mine, (edit(mine),)):
        assert (mine.workers, mine.max_queue_size) == (3, 6)
    assert (mine.workers, mine.max_queue_size) == (1, 4)


def test_no_edit_touches_nothing():
    with working(np.zeros(3), ()):
        pass


def test_another_loader_is_refused():
    with pytest.raises(EditRefused, match="the code or the settings of Sleeping"):
        check_loader(Sleeping(), LoaderWorkers(workers=2, expects="another"))


@pytest.mark.parametrize("own", [{"workers": 2}, {"use_multiprocessing": True}])
def test_workers_of_the_users_own_are_kept(own):
    mine = Sleeping(**own)
    with pytest.raises(EditRefused, match="workers of its own"):
        check_loader(mine, edit(mine))


def test_threads_are_measured_where_they_may_be_used():
    (stage,) = loader_stages(Feed(x=Sleeping()))
    assert not stage.random
    assert stage.threads_wall_s_per_element < stage.wall_s_per_element
    (own,) = loader_stages(Feed(x=Sleeping(workers=2)))
    assert own.threads_wall_s_per_element is None


def test_an_epoch_that_is_left_early_leaves_no_thread_behind():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    mine = Sleeping()
    before = threading.active_count()
    with Feed(x=in_workers(mine, edit(mine))).reading(model) as epochs:
        for _ in epochs:
            break
        assert threading.active_count() > before
    deadline = time.monotonic() + 20
    while any(t.name.startswith("Worker_") for t in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
