"""Commands to type next: quoted, and for the folder in which they are typed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from uncork.core.documents.workload import Workload


def command_line(words: Sequence[str], folder: str) -> str:
    """A command as it can be pasted into the shell of the present process.

    A script's arguments may be paths: the command works in the folder that it was typed in before.

    Args:
        words: Of the command.
        folder: Absolute path of that folder; ``""`` where it is not known.

    Example:
        >>> command_line(["python", "train.py", "--data", "my photos"], "")
        "python train.py --data 'my photos'"
    """
    command = shlex.join(words)
    if not is_elsewhere(folder):
        return command
    return f"cd {shlex.quote(seen_from(os.getcwd(), folder))} && {command}"  # noqa: PTH109


def path_in_command(path: str, folder: str) -> str:
    """A path of the present folder, as a command names it that is for another one."""
    return seen_from(folder, str(Path(path).absolute())) if is_elsewhere(folder) else path


def is_elsewhere(folder: str) -> bool:
    """The folder is there on this machine, and another one than the present."""
    try:
        return Path(folder).is_absolute() and not Path(folder).samefile(Path.cwd())
    except OSError:  # of another machine, or gone
        return False


def seen_from(folder: str, path: str) -> str:
    """Relative where it lies below the folder, absolute elsewhere."""
    try:
        return str(Path(path).relative_to(folder))
    except ValueError:
        return path


def training_option(workload: Workload) -> list[str]:
    """How the command line is told of a training; no word for the first one.

    Of a ``fit`` that is called in a loop, all calls are looked at as one, unless one is named.
    """
    named = workload.index and not workload.is_fit_in_loop
    return ["--training", str(workload.index)] if named else []
