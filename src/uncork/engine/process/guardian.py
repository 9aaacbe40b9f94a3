"""A small process beside this one, while it has worker processes: it acts if this one is killed.

Its standard input is a pipe that only this process can write to. When the pipe closes without a
word, this process is dead, and the guardian ends the worker process, restores the files that the
script overwrote, and removes all folders of this process. A thread of the worker process could not
do that: whatever holds Python's lock would hold it up, and the script would go on writing.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from uncork.capture.sandbox.restore import RestoreResult
from uncork.core.base.owned_folder import has_living_owner
from uncork.engine.process.abandoned import clear_abandoned_folders

# It imports all that it needs at its start: it must be quick at the end, on a busy machine, too.
_WATCH: Final = (
    "import json, os, sys\n"
    "sys.path[:] = json.loads(sys.argv[1])\n"
    "from uncork.engine.process.guardian import main\n"
    "os.read(0, 1) or main(int(sys.argv[2]))\n"
)
_FLAGS: Final = ("-I", "-S")
# How long a process may take to die: the kernel takes back its memory, and that of a GPU.
_LONGEST_S: Final = 60.0
_PAUSE_S: Final = 0.01
# Of Linux's ``prctl``.
_SET_PARENT_DEATH_SIGNAL: Final = 1


# The guardian that this process has; one is enough.
_guardians: Final[list[subprocess.Popen[bytes]]] = []


@contextmanager
def guardian() -> Iterator[None]:
    """If this process is killed while the block runs, another one clears up after it.

    Raises:
        OSError: No process can be started.
    """
    if _guardians:
        yield
        return
    command = [sys.executable, *_FLAGS, "-c", _WATCH, json.dumps(sys.path), str(os.getpid())]
    # In a session of its own: neither Ctrl-C nor a signal to the whole group ends it.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    ) as watching:
        assert watching.stdin is not None
        _guardians.append(watching)
        try:
            yield
        finally:
            _guardians.remove(watching)
            with suppress(OSError):
                watching.stdin.write(b"x")
                watching.stdin.flush()


def end_with_parent(folder: Path) -> None:
    """In a worker process: end at once when its parent does, also while nobody guards it.

    Linux only. It counts from the thread that started this process, and that thread waits for it.

    Args:
        folder: Of the job; its owner is the parent.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if not has_living_owner(folder):  # it has ended before that
        os._exit(0)


def main(parent: int) -> None:
    """The process that started this one is dead, or dies right now.

    Args:
        parent: Its number. Its files are closed one by one, and last of all it stops being the
            parent.
    """
    end = time.monotonic() + _LONGEST_S
    while os.getppid() == parent and time.monotonic() < end:
        time.sleep(_PAUSE_S)
    tell_restored(clear_abandoned_folders())


def tell_restored(result: RestoreResult) -> None:
    """Say which files of the user's were restored after a process that was killed."""
    for what, names in (
        ("overwrote these files, and Uncork restored them", result.restored_files),
        ("overwrote these files, and Uncork could not restore them", result.lost_files),
    ):
        if names:
            with suppress(OSError):
                sys.stderr.write(f"uncork: a run that was killed {what}: {', '.join(names)}\n")
