"""The processes that a script is tuned in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest

from uncork.core.errors import WrongUse
from uncork.engine.processes import _CHILD, require_tensorflow


def test_a_child_imports_from_where_python_path_says_first(tmp_path):
    """Not from the working directory, and not from the last place that Python knows."""
    begun = _CHILD.partition("from uncork")[0] + "import json; print(json.dumps(sys.path))"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for flags in ([], ["-P"]):
        told = subprocess.check_output([sys.executable, *flags, "-c", begun], env=env, text=True)
        assert json.loads(told)[0] == str(tmp_path)


@pytest.mark.parametrize("release", ["3.7.0", "3.15.1", "3.16.0.dev0", "4.0.0rc1"])
def test_any_keras_from_the_oldest_on_will_do(monkeypatch, release):
    monkeypatch.setattr(metadata, "version", lambda name: release)
    require_tensorflow()


@pytest.mark.parametrize("release", ["3.6.0", "2.15.0"])
def test_an_older_keras_is_refused(monkeypatch, release):
    monkeypatch.setattr(metadata, "version", lambda name: release)
    with pytest.raises(WrongUse, match=release) as refused:
        require_tensorflow()
    assert "Keras 3.7" in refused.value.expected


def test_a_keras_that_tells_no_release_is_not_judged(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    require_tensorflow()
