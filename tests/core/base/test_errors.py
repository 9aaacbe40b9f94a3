from __future__ import annotations

import pytest

from uncork.core.base import errors, exit_codes

TREE = [
    (errors.WrongUse, exit_codes.WRONG_USE),
    (errors.MissingTensorFlow, exit_codes.WRONG_USE),
    (errors.MissingPrivateApi, exit_codes.WRONG_USE),
    (errors.PlanRefused, exit_codes.WRONG_USE),
    (errors.EditRefused, exit_codes.WRONG_USE),
    (errors.PatchRefused, exit_codes.WRONG_USE),
    (errors.NothingToMeasure, exit_codes.NOTHING_TO_MEASURE),
    (errors.ScriptFailed, exit_codes.SCRIPT_FAILED),
    (errors.OutOfMemory, exit_codes.NOTHING_TO_MEASURE),
    (errors.RegressionFound, exit_codes.REGRESSION),
]


@pytest.mark.parametrize(("kind", "code"), TREE)
def test_every_error_knows_its_exit_code(kind, code):
    assert kind("received").exit_code == code
    assert issubclass(kind, errors.UncorkError)


def test_all_errors_are_listed_here():
    defined = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.UncorkError)
    }
    assert defined == {kind for kind, _ in TREE} | {errors.UncorkError}


def test_a_message_says_received_expected_remedy():
    assert str(errors.WrongUse("a", "b", "c")) == "a\n  expected: b\n  try: c"
    assert str(errors.WrongUse("a", remedy="c")) == "a\n  try: c"
    assert str(errors.WrongUse("a")) == "a"


def test_exit_codes_are_what_scripts_rely_on():
    assert {n: v for n, v in vars(exit_codes).items() if n.isupper()} == {
        "DONE": 0,
        "SCRIPT_FAILED": 1,
        "WRONG_USE": 2,
        "NOTHING_TO_MEASURE": 3,
        "REGRESSION": 4,
        "INTERRUPTED": 130,
    }
