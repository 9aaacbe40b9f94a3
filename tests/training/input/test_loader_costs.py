from __future__ import annotations

import keras
import numpy as np
import pytest

from uncork.measure.profile import statement_profiler as statements
from uncork.pycode.purity.random_draws import preserve_random_states
from uncork.training.input.feed import Feed
from uncork.training.input.loader_code import create_float32_loader
from uncork.training.input.loader_costs import measure_loader_stages

ROWS = np.arange(400_000, dtype="float64").reshape(-1, 40)
NARROW = ROWS.astype("float32")


class Whole(keras.utils.PyDataset):
    """Scales the whole table for each batch."""

    def __init__(self):
        super().__init__()
        self.rows = NARROW

    def __len__(self):
        return 8

    def __getitem__(self, index):
        chosen = slice(32 * index, 32 * (index + 1))
        scaled = self.rows * 2.0
        return scaled[chosen], NARROW[chosen, 0]


class Wide(Whole):
    def __getitem__(self, index):
        chosen = slice(2_000 * index, 2_000 * (index + 1))
        return ROWS[chosen] * 2.0, ROWS[chosen, 0]


class Scales(np.ndarray):
    """Rows, and a fake clock that only scaling them moves."""

    now = 0.0

    def __mul__(self, by):
        Scales.now += 1.0
        return super().__mul__(by)

    @staticmethod
    def perf_counter():
        Scales.now += 0.01  # looking at it, too
        return Scales.now


def test_a_loader_that_copies_a_whole_array_is_seen_at_its_line(monkeypatch):
    monkeypatch.setattr(statements, "time", Scales)
    dataset = Whole()
    dataset.rows = NARROW.view(Scales)
    (stage,) = measure_loader_stages(Feed(x=dataset))
    line = Whole.__getitem__.__code__.co_firstlineno + 2
    assert stage.at == stage.array_copy.at
    assert stage.at.endswith(f"test_loader_costs.py:{line}")
    assert 0.9 < stage.array_copy.share < 1.0
    assert stage.array_copy.copied_bytes >= NARROW.nbytes
    assert stage.array_copy.batch_bytes == stage.bytes_per_element == 32 * 41 * 4
    assert stage.float32_cpu_s_per_element is None


def test_a_loader_that_copies_its_batch_only_is_left_alone():
    (stage,) = measure_loader_stages(Feed(x=Wide()))
    assert stage.array_copy is None
    assert stage.float32_cpu_s_per_element <= stage.cpu_s_per_element


class Unpacking(Whole):
    """Makes more than it hands over, from nothing of that size."""

    def __init__(self):
        super().__init__()
        self.rows = None

    def __getitem__(self, index):
        decoded = np.zeros((2_000, 400), "float32")
        return decoded[:32, :9] + index


def test_a_loader_that_unpacks_much_copies_nothing():
    (stage,) = measure_loader_stages(Feed(x=Unpacking()))
    assert stage.array_copy is None


class Drawing(Whole):
    def __init__(self):
        super().__init__()
        self.draw, self.old = np.random.default_rng(3), np.random.RandomState(3)
        self.seen = {}

    def __getitem__(self, index):
        self.seen[index] = ROWS[self.draw.integers(9)]
        return self.seen[index] + self.old.random()


def test_a_loader_draws_what_it_would_have_drawn():
    dataset, other = Drawing(), Drawing()
    measure_loader_stages(Feed(x=dataset))
    np.testing.assert_array_equal(dataset[5], other[5])


def test_what_a_loader_remembers_stays_as_it_was():
    dataset = Drawing()
    with preserve_random_states(dataset):
        assert create_float32_loader(dataset)(7).dtype == "float32"
    assert dataset.seen == {}


def test_a_loader_in_single_precision_gives_the_same_in_single_precision():
    dataset = Wide()
    single = create_float32_loader(dataset)
    rows, firsts = single(1)
    assert (rows.dtype, firsts.dtype) == ("float32", "float32")
    np.testing.assert_allclose(rows, dataset[1][0])


def test_the_original_keeps_its_arrays():
    class Owner(Whole):
        def __init__(self):
            super().__init__()
            self.rows = ROWS

        def __getitem__(self, index):
            return self.rows[index : index + 2] * offset

    offset = ROWS[:1].repeat(4_000, axis=0)[:2]
    dataset = Owner()
    single = create_float32_loader(dataset)
    assert single(3).dtype == "float32" or offset.nbytes < 1 << 20
    assert dataset.rows is ROWS
    assert dataset[3].dtype == "float64"
    assert globals()["ROWS"].dtype == "float64"


def test_what_a_function_closes_over_is_narrowed_for_the_copy_alone():
    table = ROWS * 3.0

    class Closed(Whole):
        def __getitem__(self, index):
            return table[index]

    dataset = Closed()
    assert create_float32_loader(dataset)(1).dtype == "float32"
    assert dataset[1].dtype == table.dtype == "float64"


@pytest.mark.parametrize("loader", [Whole(), NARROW, [1, 2]])
def test_where_nothing_is_wide_there_is_no_narrower_one(loader):
    assert create_float32_loader(loader) is None
