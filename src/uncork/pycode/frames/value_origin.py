"""Where a script made an array: the line that gave it the name by which it is known.

An array has no history. But a script keeps the large ones under names of its own, and says where;
and what has made it may have been called in one place only.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from uncork.pycode.frames.stack import format_location
from uncork.pycode.syntax.parse import parse_source

# Two arrays with so many numbers in common, from all over them, are taken to be the same.
_LOOKS: Final = 1024
_BLOCKS: Final = (ast.If, ast.For, ast.While, ast.With, ast.Try)


def find_array_origin(array: Any, module: Any = None) -> str | None:
    """Where the script last gave an array, or one of equal content, a name.

    Args:
        array: NumPy's, or a tensor in the host's memory.
        module: With the names; the script that runs, unless given.

    Returns:
        ``file.py:line`` of the assignment; None where no name of the module's stands for it, or
        where its source cannot be read.

    Example:
        >>> find_array_origin(np.ones(3)) is None
        True
    """
    module = sys.modules.get("__main__") if module is None else module
    file = getattr(module, "__file__", None)
    with suppress(Exception):  # an array that minds being looked at, a source that is gone
        held = np.asarray(array)
        names = {name for name, value in vars(module).items() if _is_same(value, held)}
        tree = parse_source(Path(file or "").read_text())
        lines = [line for name, line in _assignments(tree.body) if name in names]
        return format_location(str(file), lines[-1]) if lines else None
    return None


def find_only_call(name: str, module: Any = None) -> str | None:
    """Where the script calls a function or method of some name, if that is in one place.

    Args:
        name: The last part of it.
        module: Whose source is read; that of the script that runs, unless given.
    """
    module = sys.modules.get("__main__") if module is None else module
    file = getattr(module, "__file__", None)
    with suppress(Exception):
        tree = parse_source(Path(file or "").read_text())
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        lines = [c.lineno for c in calls if name in (_attribute(c.func), _name(c.func))]
        return format_location(str(file), lines[0]) if len(lines) == 1 else None
    return None


def find_only_assignment(name: str, module: Any = None) -> str | None:
    """Where the script assigns to a variable that an attribute holds, if that is in one place.

    Args:
        name: Of the attribute.
        module: Whose source is read; that of the script that runs, unless given.
    """
    module = sys.modules.get("__main__") if module is None else module
    file = getattr(module, "__file__", None)
    with suppress(Exception):
        tree = parse_source(Path(file or "").read_text())
        called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        lines = [c.lineno for c in called if _changes(c, name)]
        return format_location(str(file), lines[0]) if len(lines) == 1 else None
    return None


def _changes(called: ast.expr, name: str) -> bool:
    """Whether this is ``something.name.assign``, or the like of it."""
    if not isinstance(called, ast.Attribute) or not called.attr.startswith("assign"):
        return False
    return name in (_attribute(called.value), _name(called.value))


def _attribute(called: ast.expr) -> str | None:
    return called.attr if isinstance(called, ast.Attribute) else None


def _name(called: ast.expr) -> str | None:
    return called.id if isinstance(called, ast.Name) else None


def _is_same(value: Any, array: Any) -> bool:
    if value is array:
        return True
    if type(value) is not np.ndarray or (value.shape, value.dtype) != (array.shape, array.dtype):
        return False
    step = max(1, array.size // _LOOKS)
    one, other = (np.asarray(a).reshape(-1)[::step] for a in (value, array))
    return bool(np.array_equal(one, other, equal_nan=value.dtype.kind == "f"))


def _assignments(statements: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    """Names that a module's own statements assign to, in the order in which they stand there."""
    for statement in statements:
        for target in _targets(statement):
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    yield node.id, statement.lineno
        if isinstance(statement, _BLOCKS):
            for field in ("body", "orelse", "finalbody"):
                yield from _assignments(getattr(statement, field, []))


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    if isinstance(statement, ast.AugAssign | ast.AnnAssign):
        return [statement.target]
    if isinstance(statement, ast.With):
        return [item.optional_vars for item in statement.items if item.optional_vars]
    return []
