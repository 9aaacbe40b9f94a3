"""Folders for what processes tell each other, and the errors of the system about them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from uncork.core.base.errors import WrongUse
from uncork.core.base.owned_folder import owned_folder
from uncork.core.documents.plan import Plan
from uncork.core.documents.plan_file import serialize_plan
from uncork.engine.process.guardian import guardian


@contextmanager
def temporary_folder() -> Iterator[str]:
    """A folder for what processes tell each other; it goes, whatever happens.

    If this process is killed, another one clears up after it.

    Raises:
        WrongUse: There is no room for it, or no process can be started.
    """
    with ExitStack() as ending:
        with convert_os_errors("start a process"):
            ending.enter_context(guardian())
        with convert_os_errors("create a folder for temporary files"):
            folder = ending.enter_context(owned_folder())
        yield folder


def write_plan(plan: Plan, path: Path) -> str:
    """A plan where a child finds it.

    Raises:
        WrongUse: There is no room for it.
    """
    with convert_os_errors(f"write {path.name}"):
        path.write_bytes(serialize_plan(plan))
    return str(path)


@contextmanager
def convert_os_errors(action: str) -> Iterator[None]:
    """What the system does not allow is told, and costs no result that there is already."""
    try:
        yield
    except OSError as error:
        raise WrongUse(
            f"cannot {action}: {error.strerror or error}",
            f"disk space in {tempfile.gettempdir()}, and memory for another process",
            "free disk space, or set TMPDIR to another folder",
        ) from error
