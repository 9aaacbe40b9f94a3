"""Modules that are run with ``-m``: where they lie, and what Python knows of them."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from pathlib import Path

from uncork.core.base.errors import WrongUse

_MAIN = "__main__"


def find_module_file(name: str) -> str:
    """Path of a module's source, found without importing anything.

    Its packages may import TensorFlow, which has no place in a parent process. As with ``python
    -m``, the working folder comes first, and of a package its ``__main__`` is run.

    Args:
        name: As it follows ``-m``.

    Returns:
        Relative to the working folder, where it lies below that.

    Raises:
        WrongUse: There is no such module, or its source is not in a file.

    Example:
        >>> Path(find_module_file("json.tool")).name
        'tool.py'
    """
    spec = _static_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _static_spec(f"{name}.{_MAIN}")
    path = _source_path(name, spec)
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def import_module_spec(name: str) -> ModuleSpec:
    """What Python knows of a module that is to run as ``__main__``; imports its packages.

    Raises:
        WrongUse: There is no such module, or its source is not in a file.
        Exception: What its packages raise while they are imported.
    """
    package = name.rpartition(".")[0]
    if package:
        importlib.import_module(package)
    if name in sys.modules and not hasattr(sys.modules[name], "__path__"):
        warnings.warn(
            f"{name!r} found in sys.modules after import of package {package!r}, but prior to "
            f"execution of {name!r}; this may result in unpredictable behaviour",
            RuntimeWarning,
            stacklevel=2,
        )
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.{_MAIN}")
    _source_path(name, spec)
    assert spec is not None
    return spec


def has_safe_path() -> bool:
    """Python does not put the folder of the script, or the working folder, on its path."""
    return bool(getattr(sys.flags, "safe_path", False) or sys.flags.isolated)


def _source_path(name: str, spec: ModuleSpec | None) -> str:
    if spec is None:
        raise WrongUse(
            f"no module '{name}'",
            "a module, or a package with a __main__.py, as 'python -m' runs it",
            f"check the name: it is looked for in {Path.cwd()} and in this environment's packages",
        )
    if not (spec.origin or "").endswith(".py"):
        raise WrongUse(
            f"the module '{name}' has no source file ({spec.origin})",
            "a module written in Python",
            "name a module that lies in a .py file",
        )
    return str(spec.origin)


def _static_spec(name: str) -> ModuleSpec | None:
    """Part by part: ``importlib.util.find_spec`` would import the packages."""
    parts = name.split(".")
    if "" in parts:
        return None
    first = [] if has_safe_path() else [os.getcwd()]  # noqa: PTH109 - as Python writes it
    given, spec = sys.path, None
    folders: list[str] | None = None
    sys.path = [*first, *(given if has_safe_path() else given[1:])]
    try:
        for count in range(1, len(parts) + 1):
            spec = _find(".".join(parts[:count]), folders)
            if spec is None or (spec.submodule_search_locations is None and count < len(parts)):
                return None
            folders = list(spec.submodule_search_locations or ())
        return spec
    finally:
        sys.path = given


def _find(name: str, folders: list[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, folders)
        except (KeyError, ImportError):  # a namespace package within one that is not imported
            spec = None
        if spec is not None:
            return spec
    return _namespace(name, folders or ())


def _namespace(name: str, parents: Iterable[str]) -> ModuleSpec | None:
    """A package without ``__init__.py``, inside another one."""
    found = [str(Path(each, name.rpartition(".")[2])) for each in parents]
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [each for each in found if Path(each).is_dir()]
    return spec if spec.submodule_search_locations else None
