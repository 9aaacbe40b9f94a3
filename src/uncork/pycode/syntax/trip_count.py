"""How often a ``for`` statement runs, told from its text and from what its names stand for.

Nothing of the user's is called: names, attributes and items are looked up, integers are computed
with, and what is not plain is not known.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import operator
from collections.abc import Callable
from types import FrameType, FunctionType, ModuleType
from typing import Any, Final

_SIZED: Final = (range, list, tuple, dict, set, frozenset, str)
_ARITHMETIC: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
# Who writes down more than that means until something else ends it.
_MOST: Final = 10**9
# What gives as many items as its argument has.
_SAME: Final = (enumerate, reversed, list, tuple, sorted)
# Begin with the names of tqdm's bars, and of what makes a range and a bar around it.
_BAR: Final = "tqdm"
_RANGE_BAR: Final = "trange"


def count_iterations(loop: ast.For | ast.AsyncFor, frame: FrameType) -> int | None:
    """How many items a loop goes through, as its names stand now; None where that is not plain.

    Args:
        loop: The statement.
        frame: Of the code that runs it.

    Example:
        >>> import sys
        >>> epochs = 30
        >>> count_iterations(ast.parse("for i in range(2, epochs): pass").body[0], sys._getframe())
        28
    """
    if _names(loop.iter, ast.Load) & _names(loop, ast.Store):
        return None  # they stand for something else by now
    try:
        found = _value(loop.iter, frame)
        count = len(found) if type(found) in _SIZED else 0
    except Exception:  # names of the user's may stand for anything
        return None
    return count if 0 < count <= _MOST else None


def _names(tree: ast.AST, context: type[ast.expr_context]) -> set[str]:
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {name.id for name in found if isinstance(name.ctx, context)}


def _value(node: ast.expr, frame: FrameType) -> Any:
    """What an expression stands for.

    Raises:
        LookupError: That cannot be said without running code of the user's.
    """
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return _named(node.id, frame)
    if isinstance(node, ast.Attribute):
        return _attribute(_value(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        return _item(_value(node.value, frame), _value(node.slice, frame))
    if isinstance(node, ast.BinOp):
        left, right = _integers(_value(node.left, frame), _value(node.right, frame))
        return _ARITHMETIC[type(node.op)](left, right)
    if isinstance(node, ast.Call):
        function = _value(node.func, frame)
        if node.keywords and not _is_bar(function, _BAR, _RANGE_BAR):
            raise LookupError("keywords")
        return _called(function, [_value(arg, frame) for arg in node.args])
    raise LookupError(type(node).__name__)


def _named(name: str, frame: FrameType) -> Any:
    for names in (frame.f_locals, frame.f_globals, vars(builtins)):
        if name in names:
            return names[name]
    raise LookupError(name)


def _attribute(owner: Any, name: str) -> Any:
    found = inspect.getattr_static(owner, name)
    if issubclass(type(owner), ModuleType):
        return found
    if inspect.getattr_static(type(found), "__get__", None) is not None:
        raise LookupError("a property, a method or a slot")
    return found


def _item(owner: Any, key: Any) -> Any:
    if type(owner) not in (dict, list, tuple) or type(key) not in (int, str):
        raise LookupError("an item")
    return owner[key]


def _integers(*values: Any) -> tuple[int, ...]:
    if any(type(value) is not int for value in values):
        raise LookupError("no integers")
    return values


def _called(function: Any, args: list[Any]) -> Any:
    if function is range or _is_bar(function, _RANGE_BAR):
        return range(*_integers(*args))
    if function is len and type(args[0]) in _SIZED:
        return len(args[0])
    same = any(function is each for each in _SAME) and type(args[0]) in _SIZED
    if same or _is_bar(function, _BAR):
        return args[0]
    raise LookupError("a call")


def _is_bar(function: Any, *names: str) -> bool:
    """It draws a bar of tqdm's, and goes through what it is given."""
    if type(function) not in (FunctionType, type):
        return False
    # Of these two types nothing is computed by anybody's code.
    is_tqdm = str(function.__module__).partition(".")[0] == "tqdm"
    return is_tqdm and str(function.__name__).startswith(names)
