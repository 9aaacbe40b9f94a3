"""A few photos, written once by the generator itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from running import start_fork_server

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNT = 60

Run = Callable[..., str]


@pytest.fixture(scope="session")
def run() -> Run:
    """Run an example as a plain Python script and return what it printed."""

    def run(script: str, *arguments: str | Path, **environment: str) -> str:
        command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
        done = subprocess.run(
            command,
            env={**os.environ, **start_fork_server(), **environment},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def photos(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("photos")
    run("make_photos.py", directory, "--count", str(COUNT), "--seed", "3")
    return directory
