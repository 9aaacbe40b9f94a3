"""A script or a module: how it is named on a command line, and recognized again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from uncork.core.base.record import digest


def script_words(script: str, module: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """What follows ``python`` or a verb of Uncork's to run a script.

    Args:
        script: Its path, as typed; not used of a module.
        module: Name of a module that is run with ``-m``; ``""`` for a script.
        arguments: The script's own.

    Example:
        >>> script_words("train.py", "", ["--epochs", "3"])
        ('train.py', '--epochs', '3')
        >>> script_words("lab/train.py", "lab.train", ["--epochs", "3"])
        ('-m', 'lab.train', '--epochs', '3')
        >>> script_words("-odd.py", "", [])
        ('./-odd.py',)
    """
    if module:
        return ("-m", module, *arguments)
    # A name that begins as an option does would be taken for one.
    return (f"./{script}" if script.startswith("-") else script, *arguments)


def script_digest(script: str) -> str:
    """Fingerprint of a script's text; empty for what is no file (a notebook's cell)."""
    try:
        return digest(Path(script).read_bytes())
    except OSError:
        return ""
