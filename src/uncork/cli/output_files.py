"""Places for results: whether they can be written is found out before minutes are spent."""

from __future__ import annotations

import tempfile
from pathlib import Path

from uncork.core.base.errors import WrongUse


def check_writable(path: Path, options: str) -> None:
    """Make a file's folder, and see that something can be written there.

    Args:
        path: Of a file that is to be written later.
        options: That name another place.

    Raises:
        WrongUse: It cannot.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise unwritable_error(path, error, options, is_printed=False) from error


def unwritable_error(
    path: Path, error: OSError, options: str, *, is_printed: bool = True
) -> WrongUse:
    """What to say where a result cannot be written; one that there is is printed all the same."""
    return WrongUse(
        f"cannot write {path}: {error.strerror}",
        "a folder with free space and permission to write",
        f"choose another place with {options}{'; the result is printed above' * is_printed}",
    )
