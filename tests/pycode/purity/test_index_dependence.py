"""Loaders as users write them: those that threads may share, and those that they may not."""

from __future__ import annotations

import functools
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.pycode.purity.index_dependence import find_dependence
from uncork.pycode.purity.random_draws import copy_with_fixed_random_state
from uncork.pycode.purity.reachability import loader_digest

TABLE = np.arange(4_000, dtype="float32").reshape(-1, 4)
SEEN: list[int] = []
BUFFER = np.zeros((8, 4), "float32")
SCALE = {"by": 2.0}


class Rows(keras.utils.PyDataset):
    def __init__(self, **settings):
        super().__init__()
        self.rows = TABLE
        self.settings = settings
        self.count = 0
        self.cache = {}
        self.rng = np.random.default_rng(1)

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return self.rows[8 * index : 8 * index + 8] * SCALE["by"], np.full(8, index)


class Stacking(Rows):
    """Fills an array of its own."""

    def __getitem__(self, index):
        batch = np.empty((8, 4), "float32")
        for place, row in enumerate(range(8 * index, 8 * index + 8)):
            batch[place] = scaled(self.rows[row])
        return batch, [index] * 8


def scaled(row):
    return row / 255


class Resizing(Rows):
    """TensorFlow's ops on the interpreter's thread."""

    def __getitem__(self, index):
        return tf.nn.relu(self.rows[8 * index : 8 * index + 8] - 3), index


class Reading(Rows):
    """Opens a file for each batch, and closes it."""

    def __getitem__(self, index):
        return len(Path(__file__).read_bytes()) + index


class Endless(Rows):
    num_batches = None

    def __getitem__(self, index):
        return np.full(3, index)


@pytest.mark.parametrize("loader", [Rows, Stacking, Resizing, Reading, Endless])
def test_batches_of_an_index_alone(loader):
    assert find_dependence(loader()) == "index"


class NumPysDraws(Rows):
    def __getitem__(self, index):
        return self.rows[np.random.permutation(8)]


class ItsOwnDraws(Rows):
    def __getitem__(self, index):
        return self.rows[self.rng.permutation(8)]


class PythonsDraws(Rows):
    def __getitem__(self, index):
        return random.random() + index


class TensorFlowsDraws(Rows):
    def __getitem__(self, index):
        return tf.random.uniform([3])


class DrawsForNothing(Rows):
    """The batch is the same; what is drawn after it is not."""

    def __getitem__(self, index):
        random.random()
        return self.rows[:8]


class PythonsOwnDraws(Rows):
    def __init__(self):
        super().__init__()
        self.random = random.Random(3)

    def __getitem__(self, index):
        return self.random.random() + index


DRAWING = [
    NumPysDraws,
    ItsOwnDraws,
    PythonsDraws,
    PythonsOwnDraws,
    DrawsForNothing,
]


@pytest.mark.parametrize("loader", DRAWING)
def test_draws_are_told_from_other_state_and_given_back(loader):
    one, other = loader(), loader()
    keras.utils.set_random_seed(2)
    plain = repr([one[index] for index in (3, 1)])
    keras.utils.set_random_seed(2)
    assert find_dependence(other) == "draws"
    assert repr([other[index] for index in (3, 1)]) == plain


@pytest.mark.parametrize("loader", DRAWING)
def test_batches_drawn_alike_do_not_depend_on_their_turn(loader):
    alike = copy_with_fixed_random_state(loader())
    first = [repr(alike[index]) for index in range(4)]
    assert [repr(alike[index]) for index in reversed(range(4))][::-1] == first


class Counting(Rows):
    def __getitem__(self, index):
        self.count += 1
        return self.rows[:8]


class Remembering(Rows):
    def __getitem__(self, index):
        return self.cache.setdefault(index, self.rows[:8])


class Logging(Rows):
    def __getitem__(self, index):
        SEEN.append(index)
        return self.rows[:8]


class FillingASharedBuffer(Rows):
    """Right for one thread, and overwritten by the next."""

    def __getitem__(self, index):
        BUFFER[:] = index
        return BUFFER.copy()


class InPlace(Rows):
    def __init__(self):
        super().__init__()
        self.rows = TABLE.copy()

    def __getitem__(self, index):
        batch = self.rows[8 * index : 8 * index + 8]
        batch *= 0.5
        return batch.copy()


class Store:
    calls = 0

    def rows(self, index):
        Store.calls += 1
        return TABLE[8 * index : 8 * index + 8]


class ThroughAnObject(Rows):
    def __init__(self):
        super().__init__()
        self.store = Store()

    def __getitem__(self, index):
        return self.store.rows(index)


told = SEEN.append


class ThroughABuiltIn(Rows):
    def __getitem__(self, index):
        told(index)
        return self.rows[:8]


def counted(index):
    SEEN.append(index)
    return index


class ThroughAFunction(Rows):
    def __getitem__(self, index):
        return counted(index)


class OneOpenFile(Rows):
    def __init__(self):
        super().__init__()
        self.file = Path(__file__).open("rb")  # noqa: SIM115 - it is what users do

    def __getitem__(self, index):
        self.file.seek(index)
        return self.file.read(8)


class Locked(Rows):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


class CFG:
    alpha = 1.0


class Configured(Rows):
    """Reads from a class that has no methods."""

    def __getitem__(self, index):
        CFG.alpha += 1
        return self.rows[:8]


class Defaulting(Rows):
    def __getitem__(self, index, seen=[]):  # noqa: B006 - the trap itself
        seen.append(index)
        return self.rows[:8]


def scribbling(rows):
    BUFFER[:] = rows
    return BUFFER.copy()


class Transforming(Rows):
    """Holds a function in an attribute."""

    def __init__(self, transform=scribbling):
        super().__init__()
        self.transform = transform

    def __getitem__(self, index):
        return self.transform(self.rows[8 * index : 8 * index + 8])


class Collecting(Rows):
    """Leaves all as it was, but not in the middle of a batch."""

    def __init__(self):
        super().__init__()
        self.gathered = []

    def __getitem__(self, index):
        for row in range(8):
            self.gathered.append(self.rows[8 * index + row])
        batch = np.stack(self.gathered)
        self.gathered.clear()
        return batch


class CollectingNoise(Collecting):
    def __getitem__(self, index):
        return super().__getitem__(index) + np.random.normal(size=(8, 4))


class Current(Rows):
    def __getitem__(self, index):
        self.current = index
        batch = self.rows[8 * self.current : 8 * self.current + 8]
        self.current = None
        return batch + np.random.normal()


class Reseeding(Rows):
    """The same in every epoch, as long as nobody seeds in between."""

    def __getitem__(self, index):
        np.random.seed(index)
        return np.random.rand(8, 4)


class ReseedingItsOwn(Rows):
    def __getitem__(self, index):
        self.rng.bit_generator.state = np.random.PCG64(index).state
        return self.rng.normal(size=4)


class KerasDraws(Rows):
    def __getitem__(self, index):
        return np.asarray(keras.random.uniform([3]))


class Failing(Rows):
    def __getitem__(self, index):
        raise KeyError(index)


@pytest.mark.parametrize(
    "loader",
    [
        TensorFlowsDraws,  # its kernels keep a state that nobody can give back
        Counting,
        Remembering,
        Logging,
        FillingASharedBuffer,
        InPlace,
        ThroughAnObject,
        ThroughAFunction,
        ThroughABuiltIn,
        Configured,
        Defaulting,
        Transforming,
        Collecting,
        CollectingNoise,
        Current,
        Reseeding,
        ReseedingItsOwn,
        KerasDraws,
        OneOpenFile,
        Locked,
        Failing,
    ],
)
def test_what_threads_may_not_share_or_what_cannot_be_seen(loader):
    assert find_dependence(loader()) == "more"


def test_a_closure_that_counts_is_seen():
    calls = []

    class Closing(Rows):
        def __getitem__(self, index):
            calls.append(index)
            return self.rows[:8]

    assert find_dependence(Closing()) == "more"


def test_a_plan_expects_the_code_and_the_settings_not_the_data():
    known = loader_digest(Rows(flip=True))
    other = Rows(flip=True)
    other.rows = TABLE[:640]
    assert loader_digest(other) == known
    assert loader_digest(Stacking()) != loader_digest(Rows())


class Augmenting(Rows):
    def __getitem__(self, index):
        batch = self.rows[8 * index : 8 * index + 8]
        return self.rng.permutation(batch) if self.augment else batch


def test_a_switch_that_the_code_asks_for_is_part_of_it():
    on, off = Augmenting(), Augmenting()
    on.augment, off.augment = True, False
    assert loader_digest(on) != loader_digest(off)
    assert find_dependence(off) == "index"
    assert find_dependence(on) == "draws"


def test_a_global_switch_is_part_of_it(monkeypatch):
    before = loader_digest(Rows())
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert loader_digest(Rows()) != before


def plain(rows):
    return rows


def noisy(rows):
    return rows + np.random.normal(size=rows.shape)


@pytest.mark.parametrize("wrapped", [lambda f: f, functools.partial, functools.lru_cache])
def test_a_function_in_an_attribute_is_part_of_the_loader(wrapped):
    one, other = Transforming(wrapped(plain)), Transforming(wrapped(noisy))
    assert loader_digest(one) != loader_digest(other)


def test_what_a_function_in_an_attribute_draws_is_seen():
    assert find_dependence(Transforming(plain)) == "index"
    assert find_dependence(Transforming(noisy)) == "draws"


def test_a_setting_of_a_class_without_methods_is_part_of_the_loader(monkeypatch):
    before = loader_digest(Configured())
    monkeypatch.setattr(CFG, "alpha", 3.0)
    assert loader_digest(Configured()) != before


def test_a_digest_is_the_same_in_every_process(tmp_path):
    (tmp_path / "loading.py").write_text(
        "import keras\n"
        "class Loader(keras.utils.PyDataset):\n"
        "    def __getitem__(self, index):\n"
        "        return index if str(index) in {'jpg', 'png', 'jpeg', 'gif'} else 0\n"
    )
    command = (
        "import loading; from uncork.pycode.purity.reachability import loader_digest;"
        "print(loader_digest(loading.Loader()))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")  # which put the four words in other orders
    }
    assert len(found) == 1


class Minding:
    def __getattr__(self, name):
        raise RuntimeError(f"{name} is not to be asked for")


class Lazy(Rows):
    lazy = Minding()


def test_an_object_that_minds_being_looked_at_ends_nothing():
    assert find_dependence(Lazy()) == "more"
    assert loader_digest(Lazy())
