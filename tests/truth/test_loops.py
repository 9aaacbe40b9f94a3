"""What every loop keeps to, as far as that can be told without running it."""

from __future__ import annotations

import ast
import math

import pytest

from benchmarks.loops.losses import apart, printed
from benchmarks.loops.scripts import ROOT, find
from benchmarks.truth.catalog import CAUSES

LOOPS = find()


def test_ten_styles_each_in_the_table():
    assert len(LOOPS) == 10
    table = (ROOT / "README.md").read_text()
    for loop in LOOPS:
        assert f"| `{loop.name}.py` |" in table
        assert f"| `{loop.cause}` |" in table
    assert {loop.name for loop in LOOPS} == {path.stem for path in ROOT.glob("*.py")}


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_every_script(loop):
    text = loop.script.read_text()
    assert loop.cause in CAUSES
    assert ast.get_docstring(ast.parse(text))
    assert "uncork" not in text.lower(), "a user's script knows nothing of Uncork"
    assert ".fit(" not in text
    for promised in ("--epochs", "trained.weights.h5", " samples in ", "loss", "set_random_seed"):
        assert promised in text


def test_losses_are_read_as_they_were_printed():
    lines = ["epoch 1: loss 0.658179 1.086797", "epoch 2: loss -1.5e-05, right 0.112", "loss nan"]
    assert printed(lines)[:3] == (0.658179, 1.086797, -1.5e-05)
    assert math.isnan(printed(lines)[3])
    assert printed(["trained 960 samples in 3.03 s"]) == ()


def test_what_is_missing_is_infinitely_far():
    assert apart((2.0, 1.0), (2.0, 1.0)) == 0
    assert apart((2.0, 1.0), (2.0, 1.1)) == 0.1
    assert apart((2.0,), (2.0, 1.1)) == apart((), ()) == apart((0.0,), (1.0,)) == math.inf
