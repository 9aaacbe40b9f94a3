"""Answers of Python functions: what is handed out again, and what is asked anew."""

from __future__ import annotations

import os

import numpy as np
import tensorflow as tf

from uncork.pycode.purity.memoized_function import (
    MemoizedFunction,
    copy_for_tensorflow,
    note_data_pass_start,
    size_in_bytes,
)

HOW = {"flips": False, "by": 1}


def scaled(x):
    return x * HOW["by"]


def flipped(x):
    """From a state that nobody can see, once it is told to."""
    return x + (os.urandom(1)[0] % 2 if HOW["flips"] else 0)


def asked(calls, passes):
    return [[int(calls(np.int64(x))) for x in range(40)] for _ in range(passes)]


def test_what_it_answers_is_kept_at_once():
    calls = MemoizedFunction(scaled, max_bytes=30_000)
    assert asked(calls, 3) == [list(range(40))] * 3
    assert len(calls) == 40
    assert all(answer.trusted for answer in calls._answers.values())


def test_what_has_changed_is_asked_twice(monkeypatch):
    calls = MemoizedFunction(scaled, max_bytes=30_000)
    asked(calls, 2)
    monkeypatch.setitem(HOW, "by", 3)
    assert asked(calls, 1) == [[3 * x for x in range(40)]]
    assert not any(answer.trusted for answer in calls._answers.values())
    assert asked(calls, 3) == [[3 * x for x in range(40)]] * 3
    assert len(calls) == 40
    assert all(answer.trusted for answer in calls._answers.values())


def test_what_comes_out_the_same_by_chance_is_not_kept(monkeypatch):
    """Whether it is told to before the first call, or later."""
    for before in (0, 2):
        monkeypatch.setitem(HOW, "flips", False)
        calls = MemoizedFunction(flipped, max_bytes=30_000)
        asked(calls, before)
        monkeypatch.setitem(HOW, "flips", True)
        found = asked(calls, 8)
        assert len({tuple(each) for each in found}) == 8
        assert len(calls) == 0


def slow_to_look_at(x):
    """It reads a table that takes longer to digest than its answers take to make."""
    return int(TABLE[0]) + x * HOW["by"]


TABLE = np.ones(4_000_000)


def test_a_pass_that_was_left_hides_no_change(monkeypatch):
    """The next one may begin with what the one before has not come to."""
    calls = MemoizedFunction(slow_to_look_at, max_bytes=30_000)
    asked(calls, 1)
    for x in range(30, 40):  # and the pass is left
        calls(np.int64(x))
    monkeypatch.setitem(HOW, "by", 3)
    note_data_pass_start()
    assert int(calls(np.int64(5))) == 1 + 3 * 5


def test_what_lies_on_a_device_is_kept_on_the_host():
    """Here all lies on the host: it is handed on as it is, as what is no tensor."""
    tensor = tf.constant([1.0, 2.0])
    ragged = tf.ragged.constant([[1], [2, 3]])
    kept, parts, name = copy_for_tensorflow((tensor, ragged, "name"))
    assert "CPU" in kept.device
    assert parts.to_list() == ragged.to_list()
    assert name == "name"


def test_objects_count_beside_their_numbers():
    assert size_in_bytes((np.zeros(4, np.float32), tf.zeros([2]))) == 16 + 8 + 2 * 128
