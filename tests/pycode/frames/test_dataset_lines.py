from __future__ import annotations

import subprocess
import sys

import pytest
import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops

from uncork.pipeline.ir.tree import read_pipeline
from uncork.pycode.frames.dataset_lines import record_source_lines, source_line


def here() -> int:
    return sys._getframe(1).f_lineno


def test_each_stage_has_its_own_line():
    data = tf.data.Dataset.range(3)
    first = here() - 1
    data = data.map(lambda x: x).batch(2)
    lines = [int(node.at.rpartition(":")[2]) for node in read_pipeline(data).stages]
    assert lines[0] == first
    assert first < lines[1] <= first + 4


def test_chains_inside_tensorflow_count_as_the_users_call():
    data = tf.data.Dataset.list_files(__file__)
    line = here() - 1
    assert {node.at.rpartition(":")[2] for node in read_pipeline(data).stages} == {str(line)}


def test_recording_twice_hooks_once():
    hooked = dataset_ops.DatasetV2.__init__
    record_source_lines()
    assert dataset_ops.DatasetV2.__init__ is hooked


def test_paths_are_relative_below_the_working_directory(monkeypatch, tmp_path):
    data = tf.data.Dataset.range(3)
    monkeypatch.chdir(tmp_path)
    assert source_line(data).startswith("/")
    monkeypatch.undo()
    namespace = {"tf": tf}
    exec(compile("d = tf.data.Dataset.range(3)", "train.py", "exec"), namespace)
    assert source_line(namespace["d"]) == "train.py:1"


def test_without_recording_there_is_no_line():
    data = tf.data.Dataset.range(3)
    del data.__dict__["_uncork_made_at"]
    assert source_line(data) is None


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.slow
def test_a_script_run_from_elsewhere(tmp_path):
    (tmp_path / "lib.py").write_text(
        "import tensorflow as tf\n\ndef make():\n    return tf.data.Dataset.range(3)\n"
    )
    (tmp_path / "train.py").write_text(
        "from uncork.pycode.frames.dataset_lines import record_source_lines\n"
        "from uncork.pipeline.ir.tree import read_pipeline\n"
        "record_source_lines()\n"
        "import keras\n"
        "import lib\n"
        "data = lib.make().batch(2)\n"
        "print([n.at for n in read_pipeline(data).stages])\n"
    )
    out = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert out.splitlines()[-1] == "['lib.py:4', 'train.py:6']"
