"""The processes that a script is tuned in."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from uncork.engine.processes import _CHILD


def test_a_child_imports_from_where_python_path_says_first(tmp_path):
    """Not from the working directory, and not from the last place that Python knows."""
    begun = _CHILD.partition("from uncork")[0] + "import json; print(json.dumps(sys.path))"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for flags in ([], ["-P"]):
        told = subprocess.check_output([sys.executable, *flags, "-c", begun], env=env, text=True)
        assert json.loads(told)[0] == str(tmp_path)
