"""Splits by place above a shuffle: which of them leak."""

from __future__ import annotations

import pytest
import tensorflow as tf

from uncork.pipeline.analysis.reshuffled_split import find_reshuffled_split
from uncork.pipeline.ir.tree import read_pipeline

RANGE = tf.data.Dataset.range


def shuffled(**how):
    return RANGE(20).shuffle(20, **how)


def taken_and_skipped(rows):
    return rows.skip(5), rows.take(5)


def sharded(rows):
    return rows.shard(4, 0), rows.shard(4, 1)


def thirds(rows):
    rest = rows.skip(10)
    return rows.take(10), rest.take(5)


def listed(tmp_path):
    for name in "abcdef":
        (tmp_path / name).touch()
    return tf.data.Dataset.list_files(str(tmp_path / "*"))


LEAKING = {
    "take and skip": lambda: taken_and_skipped(shuffled()),
    "with a seed": lambda: taken_and_skipped(shuffled(seed=3)),
    "the other way round": lambda: taken_and_skipped(shuffled())[::-1],
    "maps and batches around it": lambda: [
        part.map(lambda x: x + 1).cache().batch(2)
        for part in taken_and_skipped(shuffled().map(lambda x: 2 * x).batch(1))
    ],
    "shards": lambda: sharded(shuffled()),
    "a part of the rest": lambda: thirds(shuffled()),
    "a cache below the shuffle": lambda: taken_and_skipped(RANGE(20).cache().shuffle(20)),
    "repeated": lambda: [part.repeat() for part in taken_and_skipped(shuffled())],
}
SOUND = {
    "one order for ever": lambda: taken_and_skipped(shuffled(reshuffle_each_iteration=False)),
    "a shuffle above": lambda: [part.shuffle(20) for part in taken_and_skipped(RANGE(20))],
    "a cache that keeps the order": lambda: taken_and_skipped(shuffled().cache()),
    "a part that is to overlap": lambda: (shuffled().take(10), shuffled().take(5)),
    "the same elements twice": lambda: (rows := shuffled()) and (rows.take(10), rows.take(5)),
    "of two shuffles": lambda: (shuffled().skip(5), shuffled().take(5)),
    "no split": lambda: (shuffled(), RANGE(5)),
}


@pytest.mark.parametrize("case", LEAKING)
def test_a_split_of_what_is_dealt_anew_is_found(case):
    training, validation = LEAKING[case]()
    found = find_reshuffled_split(read_pipeline(training), read_pipeline(validation))
    assert found is not None
    assert found.shuffle.kind == "shuffle"


@pytest.mark.parametrize("case", SOUND)
def test_what_keeps_its_order_or_is_no_split_is_left_alone(case):
    training, validation = SOUND[case]()
    assert find_reshuffled_split(read_pipeline(training), read_pipeline(validation)) is None


def test_file_names_are_dealt_anew_unless_told(tmp_path):
    names = listed(tmp_path)
    assert find_reshuffled_split(*map(read_pipeline, taken_and_skipped(names))) is not None


def elements(dataset):
    return set(dataset.as_numpy_iterator())


@pytest.mark.parametrize("seed", [None, 3])
def test_what_is_found_does_leak_and_what_is_not_does_not(seed):
    for rows, leaks in ((shuffled(seed=seed), True), (shuffled(seed=seed).cache(), False)):
        training, validation = taken_and_skipped(rows)
        if not leaks:
            elements(rows)  # the cache keeps what is read to its end
        passes = [(elements(training), elements(validation)) for _ in range(3)]
        trained = set[int]().union(*(one for one, _ in passes))
        assert any(trained & held_out for _, held_out in passes) == leaks


def test_one_file_has_one_order(tmp_path):
    (tmp_path / "rows.txt").write_text("\n".join("abcdefgh"))
    names = tf.data.Dataset.list_files(str(tmp_path / "*.txt"))
    rows = names.interleave(tf.data.TextLineDataset)
    assert find_reshuffled_split(*map(read_pipeline, taken_and_skipped(rows))) is None
