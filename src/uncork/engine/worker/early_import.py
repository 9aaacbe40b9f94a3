"""TensorFlow imported before the script runs: when that makes no difference, and doing it.

A process that is started ahead imports TensorFlow while it waits for its turn. The script would
import something else, or import it otherwise, if it changes the environment first, binds itself to
other cores, changes ``sys.path``, or lies beside a module that hides an installed one. The first
process that runs the script sees whether it does any of that.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from uncork.core.documents.job import IMPORTED_FILE_NAME
from uncork.measure.machine.probe import schedulable_cpus

_POLL_S: Final = 0.02
_TENSORFLOW: Final = "tensorflow"


def import_and_wait(listener: str, released: Path) -> None:
    """Import what a job needs, and wait.

    Args:
        listener: Module of the listener, which imports TensorFlow.
        released: A file that appears when the job is to begin.
    """
    importlib.import_module(listener)
    released.with_name(IMPORTED_FILE_NAME).touch()
    while not released.exists():
        time.sleep(_POLL_S)


class ImportObserver:
    """Sees how a script imports TensorFlow; the script runs in the block.

    Example:
        >>> with ImportObserver() as observer:
        ...     pass  # the script
        >>> observer.is_usual  # nothing was imported
        False
    """

    def __init__(self) -> None:
        self._before = _surroundings()
        self._is_unchanged: bool | None = None

    def __enter__(self) -> ImportObserver:
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ValueError):  # the script has removed it
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Called by Python's import system for each module; finds none."""
        del path, target
        if name == _TENSORFLOW and self._is_unchanged is None:
            self._is_unchanged = _surroundings() == self._before
        return None

    @property
    def is_usual(self) -> bool:
        """It was imported as a process imports it that does nothing before."""
        hides = any(map(_hides_another, list(sys.modules.items())))
        return self._is_unchanged is True and not hides


def _surroundings() -> tuple[dict[str, str], float, list[str]]:
    """What an import depends on, but for the script's folder."""
    return dict(os.environ), schedulable_cpus(), sys.path[1:]


def _hides_another(loaded: tuple[str, ModuleType]) -> bool:
    """A module from the script's folder, where another one of its name is installed."""
    name, module = loaded
    file = getattr(module, "__file__", None)
    if "." in name or name == "__main__" or not isinstance(file, str):
        return False
    folder = Path(sys.path[0] or ".").resolve()
    if folder not in Path(file).resolve().parents[:2]:
        return False
    others = [each for each in sys.path[1:] if Path(each or ".").resolve() != folder]
    return name in sys.stdlib_module_names or PathFinder.find_spec(name, others) is not None
