"""A function of the user's, taken over for everybody who holds it.

Its name may have been imported, bound to an object, wrapped or kept in a list; whoever calls it
runs its code. So it is the code that is exchanged, and given back: the function stays the object
that it was.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final

from uncork.pycode.purity.referrers import find_referrers

_PLACE: Final = "whatever is called instead"
_TEMPLATE: Final = """\
def make({names}):
    def function(*args, **kwargs):
        if False:
            {used}
        instead = {place!r}
        return instead(*args, **kwargs)
    return function
"""


def function_of_code(code: CodeType) -> FunctionType | None:
    """The one function that runs this code; None where there are several, or none any more.

    Example:
        >>> def double(x):
        ...     return 2 * x
        >>> function_of_code(double.__code__) is double
        True
    """
    # What holds a code object is found by the collector, which makes no difference between kinds.
    found = [
        each
        for each in find_referrers(code)
        if isinstance(each, FunctionType) and each.__code__ is code
    ]
    return found[0] if len(found) == 1 else None


class FunctionReplacement:
    """Calls something else in the place of a function, from now until it is given back.

    Args:
        function: Of the user's.
        replacement: Gets its arguments; what it returns is returned.

    Attributes:
        original: Does what the function did.

    Example:
        >>> def double(x):
        ...     return 2 * x
        >>> taken = FunctionReplacement(double, lambda x: 10 * x)
        >>> double(4), taken.original(4)
        (40, 8)
        >>> taken.restore()
        >>> double(4)
        8
    """

    def __init__(self, function: FunctionType, replacement: Callable[..., Any]) -> None:
        self._function = function
        self.original = FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        self.original.__kwdefaults__ = function.__kwdefaults__
        self.original.__qualname__ = function.__qualname__
        self.original.__module__ = function.__module__
        function.__code__ = _handing_over(function.__code__, replacement)

    def restore(self) -> None:
        """Let the function be what it was."""
        self._function.__code__ = self.original.__code__


def _handing_over(code: CodeType, instead: Callable[..., Any]) -> CodeType:
    """Code that fits where ``code`` stood: a function's closure cannot change its length."""
    names = ", ".join(f"_{number}" for number in range(len(code.co_freevars)))
    source = _TEMPLATE.format(names=names, used=names or "pass", place=_PLACE)
    space: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), space)
    function = space["make"](*code.co_freevars)
    template: CodeType = function.__code__
    constants = tuple(instead if c == _PLACE else c for c in template.co_consts)
    return template.replace(co_consts=constants, co_name=code.co_name)
