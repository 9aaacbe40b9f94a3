"""Run ``uncork`` and Python in processes of their own, with temporary files of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[..., Path]


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
    paths = (str(Path(__file__).parent), given.get("PYTHONPATH", ""))
    return {**given, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def left_behind(cwd: Path) -> list[str]:
    """Temporary files of Uncork's own that outlived it."""
    return [path.name for path in (cwd / "temp").iterdir() if path.name.startswith("uncork")]
