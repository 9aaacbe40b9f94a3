"""Generators: which of them are kept, and what of them is handed out then."""

from __future__ import annotations

import functools
import itertools
import os
import random

import numpy as np
import pytest
import tensorflow as tf

from pipeline.helpers import by_decree
from uncork.core.base.errors import EditRefused
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import GeneratorCache
from uncork.pipeline.equivalence.digests import element_digests
from uncork.pipeline.ir.python_functions import user_generator_of
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit
from uncork.pycode.purity.memoized_generator import MemoizedGenerator
from uncork.pycode.purity.reachability import function_digest

ROWS = np.arange(40, dtype=np.float32).reshape(10, 4)
SCALE = {"by": 2.0}
TURNS: list[int] = []
SPEC = tf.TensorSpec((4,), tf.float32)


def rows():
    for row in ROWS:
        yield row * np.float32(SCALE["by"])


def rows_in_one_place():
    row = np.zeros(4, np.float32)
    for number in range(10):
        row[:] = ROWS[number]
        yield row


def rows_of(table):
    yield from table


def shuffled():
    order = list(range(10))
    random.shuffle(order)
    for number in order:
        yield ROWS[number]


def unseen():
    """Draws behind the elements that are looked at."""
    for number in range(40):
        yield ROWS[number % 10] + np.float32(np.random.normal() if number > 30 else 0)


def in_turn():
    TURNS.append(1)
    for row in ROWS:
        yield row + len(TURNS)


def printing():
    for row in ROWS:
        print(".", end="")
        yield row


class Reader:
    def __init__(self):
        self.rows = ROWS + 1

    def __call__(self):
        yield from self.rows

    def read(self):
        yield from self.rows


def made_by(generator, **settings):
    return tf.data.Dataset.from_generator(generator, output_signature=SPEC, **settings)


def keepable(dataset):
    found = by_decree(dataset, batch_size=1)
    return next((s.memoization for s in found if s.memoization), None)


def edit_of(dataset):
    pipeline = read_pipeline(dataset)
    code = function_digest(user_generator_of(pipeline.stages[0]))
    return GeneratorCache(
        stage=0, expected_digest=pipeline.digest, size_bytes=1 << 20, code_digest=code
    )


def kept(dataset):
    return apply_edit(read_pipeline(dataset), edit_of(dataset)).dataset


def values(dataset):
    return [x.numpy().tolist() for x in dataset]


@pytest.mark.parametrize(
    "generator",
    [rows, Reader(), Reader().read, functools.partial(rows_of, ROWS)],
    ids=["function", "object", "method", "partial"],
)
def test_what_yields_the_same_is_kept(generator):
    dataset = made_by(generator)
    found = keepable(dataset.shuffle(10).batch(2))
    assert found is not None
    assert found.total_bytes == 10 * (4 * 4 + 128)
    assert element_digests(kept(dataset), epochs=3) == element_digests(dataset, epochs=3)


def test_what_is_kept_is_a_copy():
    """Of an array that is filled anew TensorFlow may see the next element; what is kept does not.

    The same happens without us, so the elements themselves are not compared.
    """
    holder = MemoizedGenerator(rows_in_one_place, max_bytes=10_000)
    list(holder())
    np.testing.assert_array_equal(np.stack(list(holder())), ROWS)


@pytest.mark.parametrize("generator", [shuffled, in_turn, printing])
def test_what_may_yield_something_else_is_not(generator):
    assert keepable(made_by(generator)) is None


def test_arguments_are_left_alone():
    dataset = made_by(rows_of, args=(ROWS,))
    assert user_generator_of(read_pipeline(dataset).root) is None
    assert keepable(dataset) is None


def test_it_is_run_once():
    TURNS.clear()
    dataset = kept(made_by(in_turn))
    first = values(dataset)
    assert values(dataset) != first  # its turns are something that it can get at
    once = kept(made_by(Reader()))
    assert values(once) == values(once)


@pytest.mark.parametrize(
    "build",
    [
        lambda d: d.repeat(2),
        lambda d: d.shuffle(10, seed=3).batch(3),
        lambda d: d.map(lambda x: x + 1).prefetch(2),
        lambda d: tf.data.Dataset.zip(tf.data.Dataset.range(10), d),
    ],
    ids=["repeated", "shuffled", "mapped", "zipped"],
)
def test_everything_behind_it_stays(build):
    plain = build(made_by(rows))
    pipeline = read_pipeline(plain)
    stage = next(
        i for i, p in enumerate(pipeline.stage_locations) if p.node.kind == "from_generator"
    )
    code = function_digest(rows)
    edit = GeneratorCache(
        stage=stage, expected_digest=pipeline.digest, size_bytes=1 << 20, code_digest=code
    )
    edited = apply_edit(pipeline, edit)
    assert edited.digest != pipeline.digest
    assert edited.root.at == pipeline.root.at
    assert element_digests(edited.dataset, epochs=3) == element_digests(plain, epochs=3)


def test_what_it_reads_may_change_between_passes(monkeypatch):
    plain, dataset = made_by(rows), kept(made_by(rows))
    before = values(dataset)
    assert values(dataset) == before
    monkeypatch.setitem(SCALE, "by", 5.0)
    assert values(dataset) == values(plain) != before


def test_what_has_changed_is_run_twice_before_it_is_kept(monkeypatch):
    holder = MemoizedGenerator(rows, max_bytes=10_000)
    runs, noting = [], holder._noting
    monkeypatch.setattr(holder, "_noting", lambda *of: runs.append(of) or noting(*of))
    list(holder())
    list(holder())
    monkeypatch.setitem(SCALE, "by", 5.0)
    for _ in range(4):
        np.testing.assert_array_equal(np.stack(list(holder())), ROWS * 5)
    assert len(runs) == 3


def test_what_changes_before_the_first_pass_counts(monkeypatch):
    """As a callback does at the start of a training: nothing was looked at since."""
    holder = MemoizedGenerator(drawing, max_bytes=10_000)
    monkeypatch.setitem(SCALE, "by", 5.0)
    found = [np.stack(list(holder())).tolist() for _ in range(4)]
    assert all(a != b for a, b in itertools.combinations(found, 2))


def drawing():
    """From a state that nobody can see, once it is told to."""
    for row in ROWS:
        yield row + (np.float32(int.from_bytes(os.urandom(2), "big")) if SCALE["by"] > 2 else 0)


def test_what_gives_something_else_then_is_not_kept(monkeypatch):
    holder = MemoizedGenerator(drawing, max_bytes=10_000)
    list(holder())
    monkeypatch.setitem(SCALE, "by", 5.0)
    found = [np.stack(list(holder())).tolist() for _ in range(4)]
    assert all(a != b for a, b in itertools.combinations(found, 2))


def ending():
    yield from ROWS
    print("so many were left out: 0")


def test_what_a_generator_says_at_its_end_is_said_each_time(capsys):
    holder = MemoizedGenerator(ending, max_bytes=10_000)
    for _ in range(3):
        list(holder())
    assert capsys.readouterr().out.count("left out") == 3


def test_a_pass_in_which_something_was_drawn_is_not_kept():
    dataset = kept(made_by(unseen))
    holder = user_generator_of(read_pipeline(dataset).root)
    list(dataset)
    assert len(holder) == 0


def test_a_pass_that_was_left_is_not_kept():
    dataset = kept(made_by(rows))
    list(dataset.take(3))
    assert values(dataset) == values(made_by(rows))


def test_no_more_is_kept_than_was_planned_for():
    dataset = made_by(rows)
    changed = apply_edit(
        read_pipeline(dataset), replace(edit_of(dataset), size_bytes=3 * 16)
    ).dataset
    assert values(changed) == values(changed) == values(dataset)
    assert len(user_generator_of(read_pipeline(changed).root)) == 0


def test_other_code_is_refused():
    with pytest.raises(EditRefused, match="tune"):
        apply_edit(
            read_pipeline(made_by(rows)), replace(edit_of(made_by(rows)), code_digest="c0de")
        )
    with pytest.raises(EditRefused):
        apply_edit(
            read_pipeline(tf.data.Dataset.range(3)),
            replace(
                edit_of(made_by(rows)),
                expected_digest=read_pipeline(tf.data.Dataset.range(3)).digest,
            ),
        )


def test_it_is_kept_once():
    dataset = kept(made_by(rows))
    with pytest.raises(EditRefused):
        apply_edit(read_pipeline(dataset), edit_of(dataset))
    assert keepable(dataset) is None


def test_a_generator_that_fails_fails_as_before():
    def failing():
        yield from ROWS[:5]
        raise ValueError("no such row")

    ours, theirs = (
        element_digests(d, epochs=2) for d in (made_by(failing), kept(made_by(failing)))
    )
    assert ours == theirs
    assert ours.epochs[0].error is not None


def test_what_is_sparse_or_ragged_is_handed_on():
    def pairs():
        for row in ROWS:
            yield tf.sparse.from_dense(row), tf.RaggedTensor.from_tensor(row[None])

    spec = (tf.SparseTensorSpec((4,), tf.float32), tf.RaggedTensorSpec((1, None), tf.float32))
    dataset = tf.data.Dataset.from_generator(pairs, output_signature=spec)
    keepable(dataset)
    assert element_digests(kept(dataset), epochs=2) == element_digests(dataset, epochs=2)


def test_what_is_laid_out_otherwise_is_trusted_again(monkeypatch):
    """Arrays that are read-only, or views: copies of them are compared with copies."""

    def views():
        for row in ROWS:
            view = np.stack([row, row])[::-1]
            view.flags.writeable = False
            yield view * np.float32(SCALE["by"]) if SCALE["by"] != 3.0 else view.T

    holder = MemoizedGenerator(views, max_bytes=100_000)
    list(holder())
    monkeypatch.setitem(SCALE, "by", 3.0)
    for _ in range(3):
        list(holder())
    assert holder._trusts
    assert len(holder) == len(ROWS)
