"""Places for results: whether they can be written is found out before minutes are spent."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from uncork.core.base.errors import WrongUse
from uncork.core.base.exclusive_use import exclusive_use
from uncork.core.base.journal import Event
from uncork.engine.process.worker_process import EventHandler

# In the place of a file: standard output.
PRINTED: Final = Path("-")


@contextmanager
def reserve_stdout(path: Path | None) -> Iterator[None]:
    """Keep standard output for a result that is printed there as JSON.

    What scripts and their processes print meanwhile goes to standard error.

    Args:
        path: Of the result; unless it is :data:`PRINTED`, nothing is changed.
    """
    if path != PRINTED:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def reserve_file(
    path: Path, verb: str, option: str, on_event: EventHandler
) -> Iterator[EventHandler]:
    """Let no other command write the same result, from the first event on.

    By then the training was reached: a script that cannot be measured here says so itself, also
    where several of its processes are started at once.

    Args:
        path: Of the result.
        verb: That writes it.
        option: That names another place.
        on_event: Told of each event.

    Yields:
        What is to be told in its place. It raises :class:`WrongUse` where another command is about
        to write the result.
    """
    with ExitStack() as claims:
        claimed: list[bool] = []

        def reserving(event: Event) -> None:
            if not claimed:
                claimed.append(claims.enter_context(exclusive_use(path)))
            if not claimed[0]:
                raise WrongUse(
                    f"another 'uncork {verb}' is running, and will write {path}",
                    "one command at a time for each result",
                    f"wait for its end, or choose another place with {option}",
                )
            on_event(event)

        yield reserving


def partial_path(path: Path) -> Path:
    """Where there is an earlier result, another name for one that is not complete."""
    return path.with_name(f"{path.stem}.partial{path.suffix}") if path.exists() else path


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
