"""Folders of ours on a disk of the user's, which go even where their process is killed.

Where they are is noted in the process's own folder, which its parent looks through at the end.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# Nothing but what is called so is ever removed.
_PREFIX: Final = ".uncork-"
_NOTE: Final = "beside-"


@contextmanager
def temporary_folder_at(
    disk: str | os.PathLike[str], scratch: str | os.PathLike[str]
) -> Iterator[Path]:
    """A folder there, removed at the end.

    Args:
        disk: A folder of the user's.
        scratch: The process's own, anywhere.

    Raises:
        OSError: There is no room for it.
    """
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=disk) as found:
        note = Path(scratch, _NOTE + Path(found).name)
        note.write_bytes(os.fsencode(Path(found).resolve()))
        yield Path(found)
    note.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what a process that was killed has left elsewhere.

    Args:
        folder: That its own folder lies in.

    Example:
        >>> with tempfile.TemporaryDirectory() as users, tempfile.TemporaryDirectory() as ours:
        ...     scratch = Path(ours, "scratch-1")
        ...     scratch.mkdir()
        ...     with temporary_folder_at(users, scratch):  # killed here
        ...         remove_leftovers(Path(ours))
        ...         os.listdir(users)
        []
    """
    for note in folder.glob(f"*/{_NOTE}*"):
        left = Path(os.fsdecode(note.read_bytes()))
        if left.name.startswith(_PREFIX) and left.is_absolute():
            shutil.rmtree(left, ignore_errors=True)
