"""What a process of Uncork leaves behind: its processes end, the user's files are restored.

The process itself calls it at the end of each worker; if it was killed, its guardian does, or the
next start of Uncork.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from uncork.capture.sandbox.restore import BACKUP_LIST_NAME, RestoreResult, restore_files
from uncork.core.base.exclusive_use import remove_abandoned_locks
from uncork.core.base.owned_folder import abandoned_folders, last_alive_ns
from uncork.core.documents.job import BACKUP_FOLDER_NAME
from uncork.engine.process.scratch_folders import remove_leftovers

# In the environment of a worker process, and of all that it starts: the folder of its job.
FOLDER_VARIABLE: Final = "UNCORK_JOB_FOLDER"
# How long a killed process may take to die.
_DYING_S: Final = 5.0
_PAUSE_S: Final = 0.02


def clear_abandoned_folders() -> RestoreResult:
    """Finish the work of processes that were killed, and remove their folders.

    Returns:
        Files of the user's that were restored, and those that could not be.
    """
    restored: list[str] = []
    lost: list[str] = []
    remove_abandoned_locks()
    for folder in abandoned_folders():
        # What a process starts while it ends is found by another look.
        end = time.monotonic() + _DYING_S
        while end_processes(folder) and time.monotonic() < end:
            time.sleep(_PAUSE_S)
        result = restore_once(folder, last_alive_ns(folder))
        restored += result.restored_files
        lost += result.lost_files
        shutil.rmtree(folder, ignore_errors=True)
    return RestoreResult(tuple(restored), tuple(lost))


def restore_once(folder: Path, ended_ns: int | None = None) -> RestoreResult:
    """Restore what the script of a job overwrote; what is restored is not restored again.

    Args:
        folder: Of the job.
        ended_ns: When the script had surely ended, if that may be long ago.
    """
    kept = folder / BACKUP_FOLDER_NAME
    try:
        result = restore_files(kept, ended_ns)
        with suppress(OSError):
            (kept / BACKUP_LIST_NAME).unlink()
        return result
    finally:
        remove_leftovers(folder)


def end_processes(folder: Path) -> bool:
    """End the worker process of a job, if it lives, and all that its script has started.

    Args:
        folder: Of the job.

    Returns:
        Whether there was any.
    """
    found = list(_processes_of(str(folder)))
    for process in found:
        with suppress(psutil.Error):
            for each in (*process.children(recursive=True), process):
                with suppress(psutil.Error):
                    each.kill()
    return bool(found)


def _processes_of(folder: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(FOLDER_VARIABLE) == folder:
                yield process
