"""Answers of Python functions: what is handed out again, and what is asked anew."""

from __future__ import annotations

import os

import numpy as np

from uncork.pipeline.kept_calls import KeptCalls

HOW = {"flips": False, "by": 1}


def scaled(x):
    return x * HOW["by"]


def flipped(x):
    """From a state that nobody can see, once it is told to."""
    return x + (os.urandom(1)[0] % 2 if HOW["flips"] else 0)


def asked(calls, passes):
    return [[int(calls(np.int64(x))) for x in range(40)] for _ in range(passes)]


def test_what_it_answers_is_kept_at_once():
    calls = KeptCalls(scaled, most_bytes=1_000)
    assert asked(calls, 3) == [list(range(40))] * 3
    assert len(calls) == 40
    assert all(answer.trusted for answer in calls._answers.values())


def test_what_has_changed_is_asked_twice(monkeypatch):
    calls = KeptCalls(scaled, most_bytes=1_000)
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
        calls = KeptCalls(flipped, most_bytes=1_000)
        asked(calls, before)
        monkeypatch.setitem(HOW, "flips", True)
        found = asked(calls, 8)
        assert len({tuple(each) for each in found}) == 8
        assert len(calls) == 0
