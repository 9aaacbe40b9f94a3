"""Which line of a script made an array."""

from __future__ import annotations

import types
from textwrap import dedent

import numpy as np
import pytest
import tensorflow as tf

from uncork.pycode.frames.value_origin import (
    find_array_origin,
    find_only_assignment,
    find_only_call,
)


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Run some lines as a module of its own, far from everything."""
    monkeypatch.chdir(tmp_path)

    def run(text):
        path = tmp_path / "train.py"
        path.write_text(dedent(text))
        module = types.ModuleType("script")
        module.__file__ = str(path)
        exec(compile(path.read_text(), str(path), "exec"), vars(module))
        return module

    return run


def test_the_last_assignment_is_its_origin(script):
    module = script("""\
        import numpy as np
        images = np.zeros((4, 2), "uint8")
        images = images / 255.0

        def unused():
            images = None
        """)
    assert find_array_origin(module.images, module) == "train.py:3"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import numpy as np\nwaves, labels = np.ones(3), np.zeros(3)", 2),
        ("import numpy as np\nwaves = np.ones(3)\nwaves /= 4", 3),
        ("import numpy as np\nif True:\n    waves = np.ones(3)", 3),
        ("import numpy as np\nfor scale in (1, 2):\n    waves = np.full(3, scale / 2)", 3),
        ("import numpy as np\nwaves: object = np.ones(3)", 2),
    ],
)
def test_assignments_have_many_forms(script, text, line):
    module = script(text)
    assert find_array_origin(module.waves, module) == f"train.py:{line}"


def test_a_tensor_of_the_same_numbers_comes_from_there_too(script):
    module = script("import numpy as np\nwaves = np.random.default_rng(1).normal(size=(30, 200))")
    assert find_array_origin(tf.constant(module.waves), module) == "train.py:2"
    assert find_array_origin(tf.constant(module.waves + 1), module) is None


def test_what_has_no_name_has_no_line(script, tmp_path):
    module = script("import numpy as np\nheld = [np.ones(3)]")
    assert find_array_origin(module.held[0], module) is None
    (tmp_path / "train.py").unlink()
    module.waves = np.ones(3)
    assert find_array_origin(module.waves, module) is None


def test_nothing_is_known_of_what_nobody_runs():
    assert find_array_origin(np.ones(3), types.ModuleType("typed")) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def f(rows):\n    return keras.utils.pad_sequences(rows)", "train.py:2"),
        ("def f(rows):\n    return pad_sequences(rows)", "train.py:2"),
        ("def f(r):\n    return pad_sequences(r), pad_sequences(r)", None),
        ("pad_sequences = None", None),
    ],
)
def test_a_call_in_one_place_is_found(script, text, line):
    assert find_only_call("pad_sequences", script(text)) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def step(self):\n    self.bank.assign(0)\n", "train.py:2"),
        ("def step(bank):\n    bank.assign_add(0)\n", "train.py:2"),
        ("def step(self):\n    self.bank.assign(0)\n    self.bank.assign(1)\n", None),
        ("def step(self):\n    self.other.assign(0)\n    self.bank.read()\n", None),
    ],
)
def test_what_changes_a_variable_is_found_where_it_is_one(script, text, line):
    assert find_only_assignment("bank", script(text)) == line
