from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No block waits until all is quiet: where others are at work, as here, it never is."""
    for name in ("step.runner", "engine.loop_runner", "engine.saved"):
        monkeypatch.setattr(f"uncork.{name}.settle", lambda: 0.0)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a script into an empty folder, the working directory of ``uncork``."""

    def write(text: str, name: str = "train.py") -> Path:
        path = tmp_path / name
        path.write_text(dedent(text))
        return path

    return write


@pytest.fixture
def uncork(tmp_path: Path) -> Run:
    """``uncork VERB ...``, with all temporary files in a folder of its own: ``tmp_path/temp``."""
    (tmp_path / "temp").mkdir()
    return lambda *args, **options: run_uncork(*args, cwd=tmp_path, **options)


def run_uncork(*args: object, cwd: Path, **options: object) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "uncork", *args, cwd=cwd, **options)


def run_python(*args: object, cwd: Path, **options: object) -> subprocess.CompletedProcess[str]:
    given = {"stdin": subprocess.DEVNULL, "env": environment(cwd), **options}
    return subprocess.run(
        [sys.executable, *map(str, args)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        **given,
    )


def begun(folder: Path, text: str, module: str) -> Path:
    """A folder with a script, and with what a test module leaves for it in a process of its own.

    Args:
        folder: Empty.
        text: Of ``train.py``.
        module: Run there, with the folder as its argument.
    """
    (folder / "train.py").write_text(text)
    done = run_python("-m", module, folder, cwd=folder, env=beside_the_tests(folder))
    assert done.returncode == 0, done.stderr
    return folder


def as_from_a_terminal() -> None:
    """In the new process: Ctrl-C works, even where the tests themselves run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def environment(cwd: Path) -> dict[str, str]:
    temp = cwd / "temp"
    temp.mkdir(exist_ok=True)
    return {**os.environ, "TMPDIR": str(temp)}


def beside_the_tests(cwd: Path) -> dict[str, str]:
    """For a module of the tests that is run by itself: it finds the others."""
    given = environment(cwd)
    paths = (str(Path(__file__).parents[1]), given.get("PYTHONPATH", ""))
    return {**given, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def left_behind(cwd: Path) -> list[str]:
    """Temporary files of Uncork's own that outlived it."""
    return [path.name for path in (cwd / "temp").iterdir() if path.name.startswith("uncork")]
