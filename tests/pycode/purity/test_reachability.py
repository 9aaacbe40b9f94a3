"""What the digest of a loader's data sees beside data."""

from __future__ import annotations

import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from uncork.pycode.purity.random_draws import RandomStates
from uncork.pycode.purity.reachability import find_reachable, find_reachable_from_function


def weak(x):
    return x + 1


def strong(x):
    return x + 2


augment = weak


class Holder:
    aug = staticmethod(weak)

    def one(self, x):
        return x

    def two(self, x):
        return x


HOLDER = Holder()
bound = HOLDER.one


def asks_by_name(x):
    return augment(x)


def asks_a_class(x):
    return Holder.aug(x)


def asks_bound(x):
    return bound(x)


@pytest.mark.parametrize(
    ("function", "place", "name", "other"),
    [
        (asks_by_name, globals(), "augment", strong),
        (asks_by_name, globals(), "augment", np.square),
        (asks_by_name, globals(), "augment", abs),
        (asks_bound, globals(), "bound", HOLDER.two),
    ],
)
def test_a_name_that_means_other_code_is_something_else(monkeypatch, function, place, name, other):
    before = find_reachable_from_function(function).digest
    assert find_reachable_from_function(function).digest == before != ""
    monkeypatch.setitem(place, name, other)
    assert find_reachable_from_function(function).digest != before


def test_so_is_one_of_a_class(monkeypatch):
    before = find_reachable_from_function(asks_a_class).digest
    monkeypatch.setattr(Holder, "aug", staticmethod(strong))
    assert find_reachable_from_function(asks_a_class).digest not in ("", before)


def test_and_one_of_a_closure():
    held = weak

    def asks(x):
        return held(x)

    before = find_reachable_from_function(asks).digest
    held = strong
    assert find_reachable_from_function(asks).digest not in ("", before)


def test_the_system_s_random_numbers_cannot_be_given_back():
    found = find_reachable(SimpleNamespace(rng=random.SystemRandom()))
    assert found.digest == ""
    RandomStates(found.generators).restore()


def test_the_second_normal_number_is_given_back_too():
    rng = np.random.RandomState(3)
    draws = RandomStates([rng])
    first, second = rng.randn(), rng.randn()
    draws.restore()
    assert (rng.randn(), rng.randn()) == (first, second)
    draws.restore()
    rng.randn()
    between = RandomStates([rng])
    assert rng.randn() == second
    assert between.has_changed()
    between.restore()
    assert rng.randn() == second


def imports_late(x):
    import colorsys  # noqa: PLC0415

    return colorsys.rgb_to_hsv(x, x, x)


def test_a_library_that_is_imported_on_the_way_is_no_change(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    before = find_reachable_from_function(imports_late).digest
    imports_late(0.5)
    assert find_reachable_from_function(imports_late).digest == before != ""
