"""The ``@tf.function`` above the step of a loop of the user's own."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from uncork.core.errors import EditRefused
from uncork.core.plan import Plan
from uncork.source.calls import check_keyword, with_keyword
from uncork.source.changes import Change
from uncork.source.tree import Source


def decorated(
    source: Source, plan: Plan, name: str, value: str, *, unset: Collection[str]
) -> Change:
    """One more option of the function that the loop calls for each batch.

    Args:
        source: The script.
        plan: Knows the line of that call.
        name: Of the option.
        value: As code.
        unset: What the script may give already.

    Raises:
        EditRefused: It is not plain which function that is, or something else calls it, too.
    """
    line = source.line_of(plan.before.workload.called_at, "step's call")
    named = f"{source.imported('tensorflow')}.function"
    found = {
        call.func.value: (function, decorator)
        for call in source.all(cst.Call)
        if isinstance(call.func, cst.Name) and source.line(call) == line
        for function in source.all(cst.FunctionDef)
        if function.name.value == call.func.value
        for decorator in function.decorators
        if _is(source, decorator, named)
    }
    defined = [f.name.value for f in source.all(cst.FunctionDef)]
    if len(found) != 1 or any(defined.count(function) > 1 for function in found):
        raise EditRefused(f"line {line} calls no one function that has @{named} above it")
    ((function, decorator),) = found.values()
    if len(source.uses(function.name.value)) > 1:
        raise EditRefused(f"{function.name.value} is not only called on line {line}")
    if isinstance(decorator.decorator, cst.Call):
        check_keyword(decorator.decorator, name, unset)

    def optioned(now: cst.BaseExpression) -> cst.Call:
        call = now if isinstance(now, cst.Call) else cst.Call(now)  # it may have had none yet
        return with_keyword(call, name, value)

    return Change(decorator.decorator, optioned)


def _is(source: Source, decorator: cst.Decorator, named: str) -> bool:
    what = decorator.decorator
    return source.code(what.func if isinstance(what, cst.Call) else what) == named
