"""Where something stands in a script, and how often it runs."""

from __future__ import annotations

import pytest

from uncork.codemod.syntax.script_tree import ScriptTree
from uncork.core.base.errors import EditRefused


def source(text: str) -> ScriptTree:
    return ScriptTree(text.encode(), "train.py")


@pytest.mark.parametrize(
    ("text", "once"),
    [
        ("d.map(f)", True),
        ("def main(): d.map(f)\nif __name__ == '__main__': main()", True),
        ("def a(): d.map(f)\ndef b(): a()\nb()", True),
        ("def a(): d.map(f)\na()\na()", False),
        ("def a(): d.map(f)\ntuner(a)", False),
        ("def a(): d.map(f)", False),
        ("def a(): d.map(f); a()", False),
        ("def a(): d.map(f); b()\ndef b(): a()", False),
        ("@command\ndef a(): d.map(f)\na()", False),
        ("for d in data: d.map(f)", False),
        ("[d.map(f) for d in data]", False),
        ("class A:\n    def a(self): d.map(f)", False),
    ],
)
def test_what_surely_runs_once(text: str, once: bool) -> None:
    found = source(text)
    assert found.runs_once(found.calls("map")[0]) is once


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import tensorflow as tf", "tf"),
        ("import os, tensorflow", "tensorflow"),
        ("import tensorflow as tf\nimport keras as k", "tf"),
    ],
)
def test_the_name_of_tensorflow(text: str, name: str) -> None:
    assert source(text).module_alias("tensorflow") == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import tensorflow as tf", "tf.keras"),
        ("from tensorflow import keras", "keras"),
        ("import tensorflow as tf\nimport keras as k", "k"),
    ],
)
def test_the_name_of_keras(text: str, name: str) -> None:
    assert source(text).module_alias("keras") == name


@pytest.mark.parametrize("text", ["", "from tensorflow import *", "def f(): import tensorflow"])
def test_no_name(text: str) -> None:
    with pytest.raises(EditRefused):
        source(text).module_alias("tensorflow")


def test_of_two_calls_on_a_line_the_one_of_that_function_is_meant() -> None:
    found = source("d.map(f).map(g)")
    assert found.code(found.call_at("train.py:1", "map", "g")) == "d.map(f).map(g)"
    with pytest.raises(EditRefused, match="2 calls of map"):
        found.call_at("train.py:1", "map")
