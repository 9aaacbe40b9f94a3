"""Put a report on disk without ever leaving half of one."""

from __future__ import annotations

from pathlib import Path

from uncork.core.errors import WrongUse
from uncork.core.record import write_atomically


def save_report(html: str, path: Path) -> None:
    """Write ``html`` to ``path``, whole or not at all.

    Raises:
        WrongUse: The path cannot be written: no space, no permission, a folder of that name. The
            figures are not lost: the caller still holds the record and can print it.
    """
    try:
        write_atomically(path, html.encode())
    except OSError as error:
        raise WrongUse(
            f"the report could not be written to {path}: {error.strerror or error}",
            "a path on a disk with space, in a folder that may be written",
            "free some space or choose another folder, then: uncork report FILE",
        ) from error
