from __future__ import annotations

import functools

import pytest

from uncork.pycode.purity.code_replacement import FunctionReplacement, function_of_code


def instead(*args, **kwargs):
    return "instead", args, kwargs


def make(offset, other):
    def add(x, y=3, *, z=1):
        return x + y + z + offset + other

    return add


def test_a_closure_keeps_what_it_holds():
    add = make(10, 20)
    taken = FunctionReplacement(add, instead)
    assert add(1, z=5) == ("instead", (1,), {"z": 5})
    assert taken.original(1) == 35
    assert taken.original(1, 2, z=0) == 33
    taken.restore()
    assert add(1) == 35


def test_whoever_holds_it_calls_the_other():
    def double(x):
        return 2 * x

    held = {"alias": double, "partial": functools.partial(double, 4), "wrapped": [double]}
    taken = FunctionReplacement(double, lambda x: -x)
    assert (held["alias"](1), held["partial"](), held["wrapped"][0](3)) == (-1, -4, -3)
    taken.restore()
    assert (held["alias"](1), held["partial"](), held["wrapped"][0](3)) == (2, 8, 6)


def test_a_method_hands_over_its_object():
    class Trainer:
        def step(self, x):
            return x

    trainer = Trainer()
    bound = trainer.step
    taken = FunctionReplacement(Trainer.step, lambda self, x: (self is trainer, x))
    assert bound(5) == (True, 5)
    taken.restore()
    assert bound(5) == 5


def test_what_the_other_raises_is_raised():
    def step():
        return 1

    def fails():
        raise ValueError("no")

    FunctionReplacement(step, fails)
    with pytest.raises(ValueError, match="no"):
        step()


def test_a_function_is_found_by_its_code():
    first, second = make(1, 2), make(1, 2)
    assert first.__code__ is second.__code__
    assert function_of_code(first.__code__) is None
    del second
    assert function_of_code(first.__code__) is first
    assert function_of_code(compile("1", "nowhere", "eval")) is None
