"""Functions, classes and code objects, taken apart."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

from uncork.pycode.frames.stack import is_user_file

# The name that a class gives the line where it begins.
_FIRST_LINE: Final = "__firstlineno__"
# Of ``contextlib``: an ``except`` in the form of a ``with``.
_SUPPRESS: Final = "suppress"
# Python's own instructions: an exception is held against types, by 3.10, later ones, and groups.
_CATCHING: Final = frozenset({"JUMP_IF_NOT_EXC_MATCH", "CHECK_EXC_MATCH", "CHECK_EG_MATCH"})
# Caught, and of no other error.
_OTHER_ERRORS: Final = frozenset({"ImportError", "ModuleNotFoundError", "KeyboardInterrupt"})


def iterate_code(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of what is defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from iterate_code(constant)


def closure_cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function's closure holds, by name."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # one that is still empty
            yield name, cell.cell_contents


def functions_of_entry(value: Any) -> list[FunctionType]:
    """Of an entry of a class, the functions in it."""
    if isinstance(value, property):
        parts = [value.fget, value.fset]
    else:
        parts = [getattr(value, "__func__", value)]
    return [part for part in parts if isinstance(part, FunctionType)]


def global_names(code: CodeType) -> set[str]:
    """What code reads, sets or deletes by its bare name outside of any function.

    Example:
        >>> sorted(global_names((lambda x: len(x.shape) + rate).__code__))
        ['len', 'rate']
    """
    found = {
        i.argval for i in dis.get_instructions(code) if i.opname.endswith(("_GLOBAL", "_NAME"))
    }
    return {name for name in found if isinstance(name, str)}


def handles_errors(code: CodeType) -> bool:
    """It catches what is raised; ``finally`` and other ``with``, which let it pass, do not count.

    Example:
        >>> def careful(x):
        ...     try:
        ...         return 1 / x
        ...     except ZeroDivisionError:
        ...         return 0
        >>> handles_errors(careful.__code__), handles_errors((lambda x: 1 / x).__code__)
        (True, False)
    """
    found = list(dis.get_instructions(code))
    if _SUPPRESS in code.co_names or any(each.opname in _CATCHING for each in found):
        return True
    # Without a type: what was raised is dropped at once.
    begins = {each.argval for each in found if each.opname == "SETUP_FINALLY"}  # Python 3.10
    dropped = (each.offset in begins and each.opname == "POP_TOP" for each in found)
    pushed = ((a.opname, b.opname) == ("PUSH_EXC_INFO", "POP_TOP") for a, b in pairwise(found))
    return any(dropped) or any(pushed)


def is_caught_here(frame: FrameType) -> bool:
    """An error that is raised where a frame is now would be caught by its own function.

    Handlers of errors in imports, and of Ctrl-C, do not count. Before Python 3.11 nobody tells
    which lines a handler is for: any of the function counts.

    Example:
        >>> import sys
        >>> try:
        ...     caught = is_caught_here(sys._getframe())
        ... except ValueError:
        ...     pass
        >>> caught, is_caught_here(sys._getframe())
        (True, False)
    """
    code = frame.f_code
    table = getattr(dis, "_parse_exception_table", None)
    if table is None:
        return handles_errors(code)
    if _SUPPRESS in code.co_names:
        return True
    found = list(dis.get_instructions(code))
    begins = {e.target for e in table(code) if e.start <= frame.f_lasti < e.end}
    return any(_catches(found[n:]) for n, each in enumerate(found) if each.offset in begins)


def _catches(handler: Sequence[dis.Instruction]) -> bool:
    """Instructions of a handler, from its first on; not what only cleans up, and raises again."""
    asked = [each for each in handler[1:] if each.opname not in ("CACHE", "NOP")]
    if asked and asked[0].opname == "POP_TOP":
        return True
    for n, each in enumerate(asked):
        if each.opname in _CATCHING:
            return n == 0 or asked[n - 1].argval not in _OTHER_ERRORS
        if each.opname in ("RERAISE", "WITH_EXCEPT_START", "PUSH_EXC_INFO"):
            return False
    return False


def attribute_names(code: CodeType) -> set[str]:
    """What code may call an attribute: all of its names, and text that it may look up by.

    Example:
        >>> sorted(attribute_names((lambda x: getattr(x, "rate") * x.scale).__code__))
        ['getattr', 'rate', 'scale']
    """
    names = set(code.co_names)
    if names & {"getattr", "setattr", "hasattr"}:
        names |= {c for c in code.co_consts if isinstance(c, str) and c.isidentifier()}
    return names


def imported_names(code: CodeType) -> set[str]:
    """Modules that code imports when it runs."""
    return {i.argval for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME"}


def code_bytes(code: CodeType) -> bytes:
    """What code does, without where it stands: equal in the next process."""
    constants = [_constant(c) for c in code.co_consts if not isinstance(c, CodeType)]
    does = code.co_code
    if _FIRST_LINE in code.co_names:  # that of a class, from Python 3.13 on
        constants, does = [], str(list(_beside_first_line(code))).encode()
    return f"{code.co_name}{code.co_names}{constants}".encode() + does


def is_user_class(class_: type) -> bool:
    """Whether the user wrote it, as far as its module tells."""
    module = sys.modules.get(class_.__module__)
    return is_user_file(getattr(module, "__file__", None) or "<")


def _beside_first_line(code: CodeType) -> Iterator[tuple[str, str]]:
    """What code does but for noting where it begins, each step with what it is about."""
    for step, following in pairwise(dis.get_instructions(code)):
        if following.argval != _FIRST_LINE:
            about = step.argval
            yield step.opname, "" if isinstance(about, CodeType) else _constant(about)


def _constant(value: Any) -> str:
    """Of code; a set has its entries in another order in every process."""
    if isinstance(value, frozenset):
        return f"{{{sorted(map(_constant, value))}}}"
    return f"({[_constant(v) for v in value]})" if isinstance(value, tuple) else repr(value)


def is_user_module(module: ModuleType) -> bool:
    """Whether the user wrote it; a folder without an ``__init__.py`` is one, too.

    Example:
        >>> import json
        >>> is_user_module(json)
        False
    """
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "<")
    return is_user_file(str(file))
