from __future__ import annotations

import threading
import types

import numpy as np
import pytest

from uncork.core.base.errors import NothingToMeasure
from uncork.measure.profile import statement_profiler as statements
from uncork.training.input.feed import Feed
from uncork.training.input.generator_stream import (
    SharedGenerator,
    share_generator,
    with_generator_reader,
)
from uncork.training.input.loader_costs import measure_loader_stages


def numbers(begin, *more, step=1, **named):
    for number in (*range(begin, 6, step), *more, *named.values()):
        yield (number,)


def taken(source, count):
    return [source.next_batch()[0] for _ in range(count)]


def test_each_batch_goes_to_one_reader():
    source = SharedGenerator(numbers(0))
    one, other = source.create_reader(), source.create_reader()
    assert [next(one), next(other), next(one)] == [(0,), (1,), (2,)]


def test_threads_do_not_disturb_each_other():
    source, seen = SharedGenerator(numbers(0, *range(6, 4_000))), []

    def read():
        seen.extend(taken(source, 1_000))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(4_000))


def test_one_that_ends_is_called_again_with_the_same_arguments():
    source = SharedGenerator(numbers(1, 10, 11, step=2, last=12))
    assert taken(source, 12) == [1, 3, 5, 10, 11, 12] * 2


def test_what_it_closes_over_is_there_again():
    rows = np.arange(3)

    def of_rows():
        yield from ((row,) for row in rows)

    assert taken(SharedGenerator(of_rows()), 6) == [0, 1, 2] * 2


def test_one_that_has_begun_is_not_begun_anew():
    begun = numbers(0)
    next(begun)
    source = SharedGenerator(begun)
    assert taken(source, 5) == [1, 2, 3, 4, 5]
    with pytest.raises(NothingToMeasure, match=r"'numbers' ended after 5 batches"):
        source.next_batch()
    assert source.has_ended is not None


def test_one_that_reads_what_is_read_once_is_not_begun_anew():
    def of(rows):
        yield from rows

    source = SharedGenerator(of(iter([(1,), (2,)])))
    assert taken(source, 2) == [1, 2]
    with pytest.raises(NothingToMeasure, match="ended after 2 batches"):
        source.next_batch()


@pytest.mark.parametrize("empty", [numbers(6), ((row,) for row in ())])
def test_an_empty_one_ends_at_once(empty):
    with pytest.raises(NothingToMeasure, match="ended after 0 batches"):
        SharedGenerator(empty).next_batch()


def test_one_that_closes_over_what_is_to_come_is_not_begun_anew():
    def of_rows():
        yield from ((row,) for row in rows)

    source = SharedGenerator(of_rows())
    rows = [1, 2]
    assert taken(source, 2) == [1, 2]
    with pytest.raises(NothingToMeasure, match="ended after 2 batches"):
        source.next_batch()


def test_keras_gets_a_generator_of_its_own():
    arguments = {"x": np.ones(3)}
    assert with_generator_reader(arguments) is arguments
    given = with_generator_reader(share_generator({"x": numbers(0), "epochs": 2}))
    assert isinstance(given["x"], types.GeneratorType)
    assert [next(given["x"])[0] for _ in range(8)] == [0, 1, 2, 3, 4, 5, 0, 1]
    assert given["epochs"] == 2


def test_only_a_generator_is_read_on():
    arguments = {"x": np.ones(3), "epochs": 2}
    assert share_generator(arguments) is arguments
    given = share_generator({"x": numbers(0), "epochs": 2})
    assert Feed.from_arguments(given).kind == Feed(x=numbers(0)).kind == "generator"
    assert Feed.from_arguments(given).spec == Feed(x=numbers(0)).spec == "generator"


class Clock:
    """A fake clock that only the slow line moves."""

    now = 0.0

    @staticmethod
    def perf_counter():
        Clock.now += 0.01
        return Clock.now


def slow_rows():
    while True:
        rows = np.zeros((4, 8))
        Clock.now += 1.0
        yield rows, rows[:, 0]


def test_the_line_that_takes_the_time_is_told(monkeypatch):
    monkeypatch.setattr(statements, "time", Clock)
    (stage,) = measure_loader_stages(Feed(x=SharedGenerator(slow_rows())))
    line = slow_rows.__code__.co_firstlineno + 3
    assert stage.at.endswith(f"test_generator_stream.py:{line}")
    assert (stage.kind, stage.name, stage.has_python_code) == ("generator", "slow_rows", True)
    assert stage.bytes_per_element == 4 * 8 * 8 + 4 * 8
    assert stage.wall_s_per_element > 0
