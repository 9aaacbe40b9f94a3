"""The processes that a script is tuned in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest

from uncork.compat.versions import require_tensorflow
from uncork.core.base.errors import WrongUse
from uncork.engine.process.worker_failure import last_line
from uncork.engine.process.worker_process import _CHILD


def test_a_child_imports_from_where_python_path_says_first(tmp_path):
    """Not from the working directory, and not from the last place that Python knows."""
    begun = _CHILD.partition("from uncork")[0] + "import json; print(json.dumps(sys.path))"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for flags in ([], ["-P"]):
        told = subprocess.check_output([sys.executable, *flags, "-c", begun], env=env, text=True)
        assert json.loads(told)[0] == str(tmp_path)


SAID = """Epoch 1/2
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    step()
ValueError: rows differ: 3 columns, not 4
    [[{{node IteratorGetNext}}]]
details of the graph [Op:step]
uncork: the script failed
"""


@pytest.mark.parametrize(
    ("said", "last"),
    [
        (SAID, "ValueError: rows differ: 3 columns, not 4"),
        (SAID * 2, "ValueError: rows differ: 3 columns, not 4"),
        ("out of memory\n\nuncork: ended\n", "out of memory"),
        ("Traceback (most recent call last):\n", "Traceback (most recent call last):"),
        ("", ""),
    ],
)
def test_of_what_a_quiet_child_said_the_exception_is_told(tmp_path, said, last):
    (tmp_path / "stderr").write_text(said)
    assert last_line(tmp_path / "stderr") == last


def installed(monkeypatch, **releases):
    def version(name):
        if name not in releases:
            raise metadata.PackageNotFoundError(name)
        return releases[name]

    monkeypatch.setattr(metadata, "version", version)


@pytest.mark.parametrize("release", ["3.7.0", "3.15.1", "3.16.0.dev0", "4.0.0rc1"])
def test_any_keras_from_the_oldest_on_will_do(monkeypatch, release):
    installed(monkeypatch, keras=release, tensorflow="2.18.0")
    require_tensorflow()


@pytest.mark.parametrize(
    ("package", "release"),
    [("keras", "3.6.0"), ("keras", "2.15.0"), ("tensorflow", "2.17.1"), ("tensorflow", "1.15.0")],
)
def test_an_older_release_is_refused(monkeypatch, package, release):
    installed(monkeypatch, **({"tensorflow": "2.21.0", "keras": "3.15.1"} | {package: release}))
    with pytest.raises(WrongUse, match=f"{package} {release}") as refused:
        require_tensorflow()
    assert "TensorFlow 2.18 to 2.21 with Keras 3.7" in refused.value.expected
    assert package in refused.value.remedy


def test_a_build_that_tells_no_release_is_not_judged(monkeypatch):
    installed(monkeypatch)
    require_tensorflow()
