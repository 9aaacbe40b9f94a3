"""Run ``uncork`` and Python in processes of their own, with temporary files of their own."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[..., Path]


_QUICK_START: Final = Path(__file__).with_name("quick_start")
FORK_SERVER_VARIABLE: Final = "UNCORK_TEST_FORK_SERVER"
# The address of a server that has been started; processes of tests need the variable above.
_SHARED_SERVER_VARIABLE: Final = "UNCORK_TEST_SHARED_FORK_SERVER"
# How long a server may take to import TensorFlow.
_IMPORT_S: Final = 60.0
# Kept, and with it the pipe, until this process ends.
_servers: Final[list[subprocess.Popen[bytes]]] = []


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


def start_shared_fork_server() -> None:
    """Start a fork server for this process and all that it starts, and go on at once.

    Called by the process that starts the workers of pytest-xdist.
    """
    folder = tempfile.mkdtemp(prefix="fork-server-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address = str(Path(folder, "socket"))
    _servers.append(_start_server(address))
    os.environ[_SHARED_SERVER_VARIABLE] = address


@functools.cache
def start_fork_server() -> dict[str, str]:
    """Let processes that need TensorFlow be forks of one that has imported it.

    ``quick_start/sitecustomize.py`` makes them so, where it is in ``PYTHONPATH``.

    Returns:
        The variable that such a process needs. Processes without it start as a user's do.
    """
    if str(_QUICK_START) not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        return {}
    if _SHARED_SERVER_VARIABLE not in os.environ:
        start_shared_fork_server()
    address = os.environ[_SHARED_SERVER_VARIABLE]
    end = time.monotonic() + _IMPORT_S
    while time.monotonic() < end:
        if Path(f"{address}.ready").exists():
            return {FORK_SERVER_VARIABLE: address}
        time.sleep(0.1)
    return {}


def _start_server(address: str) -> subprocess.Popen[bytes]:
    """It ends when the pipe closes that its standard input is: with this process."""
    command = [sys.executable, str(_QUICK_START / "fork_server.py"), address]
    null = subprocess.DEVNULL
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=null, stderr=null)


def environment(cwd: Path) -> dict[str, str]:
    temp = cwd / "temp"
    temp.mkdir(exist_ok=True)
    return {**os.environ, "TMPDIR": str(temp), **start_fork_server()}


def environment_with_tests(cwd: Path) -> dict[str, str]:
    """Variables for a test module that runs alone: it finds the other test modules."""
    given = environment(cwd)
    paths = (str(Path(__file__).parent), given.get("PYTHONPATH", ""))
    return {**given, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def remaining_temporary_files(cwd: Path) -> list[str]:
    """Temporary files of Uncork that remain after it ended."""
    return [path.name for path in (cwd / "temp").iterdir() if path.name.startswith("uncork")]
