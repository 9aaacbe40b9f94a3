"""Python in a map: what is kept of it, and of what nothing may be kept."""

from __future__ import annotations

import gc
import random

import numpy as np
import pytest
import tensorflow as tf

from pipeline.helpers import by_decree
from uncork.core.base.errors import EditRefused
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import PyFunctionCache
from uncork.pipeline.equivalence.digests import element_digests
from uncork.pipeline.ir.python_functions import python_digest, python_functions
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

CALLS: list[int] = []
SCALE = {"by": 2.0}
NUMBERS = tf.data.Dataset.range(12)
RNG = np.random.default_rng(4)


def work(x):
    """Slow enough to be worth keeping, and its own work alone."""
    total = np.float32(0)
    for i in range(300):
        total += np.float32(np.sqrt(float(x) + i))
    return np.full(8, total * np.float32(SCALE["by"]), np.float32)


def counting(x):
    CALLS.append(int(x))
    return work(x)


def drawing(x):
    return work(x) * np.float32(random.random())


def drawing_of_its_own(x):
    return work(x) * np.float32(RNG.random())


def seldom(x):
    return work(x) * np.float32(np.random.default_rng().random())


def printing(x):
    print(".", end="")
    return work(x)


def in_tensors(x):
    return tf.constant(work(x.numpy()))


def in_place(rows):
    rows *= 2
    return rows.astype(np.float32)


class Loading:
    def __init__(self):
        self.by = np.float32(3)

    def __call__(self, x):
        return work(x) * self.by

    def load(self, x):
        return work(x) * self.by


def asking(function, data=NUMBERS, **settings):
    return data.map(lambda x: tf.numpy_function(function, [x], tf.float32), **settings)


def keepable(dataset):
    found = by_decree(dataset, batch_size=1)
    return next((s.memoization for s in found if s.memoization), None)


def edit_of(dataset):
    pipeline = read_pipeline(dataset)
    stage = next(i for i, node in enumerate(pipeline.stages) if node.kind == "map")
    code = python_digest(pipeline.stages[stage].functions[0])
    return PyFunctionCache(
        stage=stage, expected_digest=pipeline.digest, size_bytes=1 << 20, code_digest=code
    )


def kept(dataset):
    return apply_edit(read_pipeline(dataset), edit_of(dataset)).dataset


def noisily(x):
    return tf.numpy_function(work, [x + tf.random.uniform([], 0, 9, tf.int64)], tf.float32)


def in_a_branch(x):
    return tf.cond(x > 3, lambda: tf.numpy_function(work, [x], tf.float32), lambda: tf.zeros(8))


@tf.function
def in_a_function(x):
    return x, tf.numpy_function(work, [x], tf.float32)


@pytest.mark.parametrize(
    "dataset",
    [
        asking(work),
        asking(work, num_parallel_calls=2),
        asking(work, NUMBERS.shuffle(12)),
        asking(Loading()),
        asking(Loading().load),
        NUMBERS.map(lambda x: tf.py_function(in_tensors, [x], tf.float32)),
        asking(work).map(lambda x: x * tf.random.uniform([])).batch(4),
    ],
    ids=["serial", "parallel", "shuffled", "object", "method", "tensors", "random above"],
)
def test_what_answers_the_same_may_be_kept(dataset):
    found = keepable(dataset)
    assert found is not None
    assert found.total_bytes == 12 * (8 * 4 + 128 + 350)
    assert found.code_digest


@pytest.mark.parametrize(
    "dataset",
    [
        asking(counting),
        asking(drawing),
        asking(drawing_of_its_own),
        asking(seldom),
        asking(printing),
        asking(in_place, tf.data.Dataset.from_tensor_slices(np.ones((9, 4), np.float32))),
        NUMBERS.shuffle(12).batch(4).map(lambda x: tf.numpy_function(np.sqrt, [x], tf.double)),
        NUMBERS.map(noisily),
        NUMBERS.map(in_a_branch),
        asking(work, NUMBERS.repeat()),
        NUMBERS.map(lambda x: x + 1),
    ],
    ids=["counts", "draws", "draws of its own", "draws from nowhere", "prints", "in place",
         "other batches", "other questions", "in a branch", "no end", "no python"],
)  # fmt: skip
def test_nothing_is_kept_of_what_may_answer_otherwise(dataset):
    assert keepable(dataset) is None


def test_it_is_asked_once_for_each_element():
    CALLS.clear()
    dataset = kept(asking(counting))
    # What it counts with is part of what it can get at, so it is watched through another list.
    first = [x.numpy().tolist() for x in dataset]
    assert sorted(CALLS) == list(range(12))
    assert [x.numpy().tolist() for x in dataset] == first


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "dataset",
    [
        asking(work),
        asking(work, num_parallel_calls=tf.data.AUTOTUNE),
        asking(work, NUMBERS.repeat(2)),
        NUMBERS.map(lambda x: tf.py_function(in_tensors, [x], tf.float32)),
        NUMBERS.map(in_a_function),
    ],
    ids=["serial", "parallel", "repeated", "tensors", "in a function"],
)  # fmt: skip
def test_elements_and_order_stay(dataset):
    ours = element_digests(dataset, epochs=3)
    gc.collect()
    theirs = element_digests(kept(dataset), epochs=3)
    assert ours == theirs
    assert ours.is_complete


def test_a_second_epoch_asks_nothing(monkeypatch):
    asked = []
    dataset = kept(asking(work))
    list(dataset)
    monkeypatch.setattr(np, "full", lambda *given: asked.append(given))
    assert len(list(dataset)) == 12
    assert asked == []


def test_what_it_reads_may_change_between_epochs(monkeypatch):
    plain, dataset = asking(work), kept(asking(work))
    before = [x.numpy().tolist() for x in dataset]
    monkeypatch.setitem(SCALE, "by", 5.0)
    after = [x.numpy().tolist() for x in dataset]
    assert after == [x.numpy().tolist() for x in plain]
    assert after != before


def test_what_it_reads_may_change_in_an_epoch_that_was_left(monkeypatch):
    plain, dataset = asking(work), kept(asking(work))
    list(dataset)
    list(dataset.take(3))
    monkeypatch.setitem(SCALE, "by", 7.0)
    assert [x.numpy().tolist() for x in dataset.skip(3)] == [
        x.numpy().tolist() for x in plain.skip(3)
    ]


def test_no_more_is_kept_than_was_planned_for():
    dataset = asking(work)
    pipeline = read_pipeline(dataset)
    small = replace(edit_of(dataset), size_bytes=3 * (8 * 4 + 128 + 350))
    changed = apply_edit(pipeline, small)
    assert [x.numpy().tolist() for x in changed.dataset] == [x.numpy().tolist() for x in dataset]
    (holder,) = python_functions(changed.stages[1].functions[0]).values()
    assert len(holder) == 3


def test_other_code_is_refused():
    edit = replace(edit_of(asking(work)), code_digest="c0de")
    with pytest.raises(EditRefused, match="tune"):
        apply_edit(read_pipeline(asking(work)), edit)


def test_it_is_kept_once():
    dataset = kept(asking(work))
    with pytest.raises(EditRefused):
        apply_edit(read_pipeline(dataset), edit_of(dataset))
    assert keepable(dataset) is None


def test_a_function_that_fails_fails_as_before():
    def failing(x):
        if x == 5:
            raise ValueError("no such picture")
        return work(x)

    ours, theirs = (element_digests(d, epochs=2) for d in (asking(failing), kept(asking(failing))))
    assert ours == theirs
    assert ours.epochs[0].error is not None
