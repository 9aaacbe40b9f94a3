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


def run_in_folder(folder: Path, text: str, module: str) -> Path:
    """Write a script into a folder and run a test module there, in a process of its own.

    Args:
        folder: Empty.
        text: Text of ``train.py``.
        module: Name of the module; its argument is the folder.
    """
    (folder / "train.py").write_text(text)
    done = run_python("-m", module, folder, cwd=folder, env=environment_with_tests(folder))
    assert done.returncode == 0, done.stderr
    return folder


def restore_sigint() -> None:
    """Let Ctrl-C work in the new process, also where the tests run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def environment(cwd: Path) -> dict[str, str]:
    temp = cwd / "temp"
    temp.mkdir(exist_ok=True)
    return {**os.environ, "TMPDIR": str(temp)}


def environment_with_tests(cwd: Path) -> dict[str, str]:
    """Variables for a test module that runs alone: it finds the other test modules."""
    given = environment(cwd)
    paths = (str(Path(__file__).parent), given.get("PYTHONPATH", ""))
    return {**given, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def remaining_temporary_files(cwd: Path) -> list[str]:
    """Temporary files of Uncork that remain after it ended."""
    return [path.name for path in (cwd / "temp").iterdir() if path.name.startswith("uncork")]
