"""Which statements of a loop's body are a training step, by the words that are used for one."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Sequence, Set
from typing import Final

from uncork.capture.outline.name_usage import (
    find_functions,
    loaded_names,
    possibly_unbound_reads,
    stored_names,
)

_TAPE: Final = "GradientTape"
# Calls that move weights, the surest first: others count only where there are none of these.
_SURE: Final = frozenset({"apply_gradients", "minimize"})
_LIKELY: Final = frozenset({"apply"})
_UPDATES: Final = _SURE | _LIKELY
_ASSIGNS: Final = frozenset({"assign", "assign_add", "assign_sub"})
# What may follow the update: ops, too.
_FOLLOWS: Final = frozenset({"update_state", *_ASSIGNS})


def shorten_tape_blocks(
    body: list[ast.stmt], following_statements: Iterable[Sequence[ast.stmt]]
) -> None:
    """What follows the update in a tape's block may as well follow the block; so it is moved there.

    Not where anybody asks the tape from then on.

    Args:
        body: Of a loop, or of a branch in one.
        following_statements: What may run after it.
    """
    asked = {name for run in following_statements for name in possibly_unbound_reads(run)}
    for number, statement in reversed(list(enumerate(body))):
        if not isinstance(statement, ast.With) or not _opens_nothing_else(statement):
            continue
        inside = statement.body
        updates = [n for n, each in enumerate(inside) if _calls_method(each, _UPDATES)]
        rest = inside[updates[-1] + 1 :] if updates else []
        tapes = {name for item in statement.items for name in stored_names(item)}
        known_as = {id(n.value) for n in ast.walk(statement) if isinstance(n, ast.Attribute)}
        named = [n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id in tapes]
        hidden = any(isinstance(n.ctx, ast.Load) and id(n) not in known_as for n in named)
        if rest and not hidden and not tapes & (asked | loaded_names([*rest, *body[number + 1 :]])):
            statement.body = inside[: updates[-1] + 1]
            body[number + 1 : number + 1] = rest


def _opens_nothing_else(statement: ast.With) -> bool:
    """Only tapes, each by a name or by none: no writer, device or clock ends with the block."""
    return all(
        isinstance(item.context_expr, ast.Call)
        and _is_tape(item.context_expr.func)
        and isinstance(item.optional_vars, ast.Name | None)
        for item in statement.items
    )


def find_step_range(
    body: Sequence[ast.stmt], module: ast.Module, recreated_names: Set[str]
) -> tuple[int, int] | None:
    r"""From the tape, or the call of a function that has one, to the last update.

    What computes with the same models before is part of it, and so are updates of metrics behind.

    Args:
        body: Of a loop, or of a branch in one.
        module: The whole script.
        recreated_names: Names that loops around it give away anew.

    Returns:
        The number of the first statement and that behind the last one; None where there is no step.

    Example:
        >>> text = "with tf.GradientTape() as t:\n loss = model(x)\noptimizer.apply(f(t))\ng()"
        >>> module = ast.parse(text)
        >>> find_step_range(module.body, module, set())
        (0, 2)
    """
    taping = {f.name for f in find_functions(module) if _only_tapes(f)}
    begins = [n for n, s in enumerate(body) if _opens_tape(s) or _calls(s, taping)]
    if not begins:
        return None
    begin = begins[0]
    last = _last_update(body, begin)
    if last is None:
        return None
    end = last + 1
    while end < len(body) and _is_following(
        body[end], recreated_names, stored_names(body[begin:end])
    ):
        end += 1
    known = _called(body[begin:end]) | _imported(module, "tensorflow")
    while begin > 0 and _is_leading(body[begin - 1], known):
        begin -= 1
    return begin, end


def _last_update(body: Sequence[ast.stmt], begin: int) -> int | None:
    """Number of the statement that a step ends with; None where nothing is updated."""
    tapes = _opens_tape(body[begin])
    for names in (_SURE, _LIKELY, _ASSIGNS if tapes else frozenset[str]()):
        updates = [n for n, s in enumerate(body) if n >= begin and _calls_method(s, names)]
        if updates and (tapes or _is_all_of_it(body[begin : updates[-1] + 1], names)):
            return updates[-1]
    return None


def _is_all_of_it(statements: Sequence[ast.stmt], names: Set[str]) -> bool:
    """A function with a tape is called, its gradients are used, and nothing else is done."""
    first, last = statements[0], statements[-1]
    plain = all(
        isinstance(each, ast.Assign) or _calls_method(each, names | _FOLLOWS) for each in statements
    )
    return plain and bool(stored_names(first) & loaded_names(last))


def _is_following(statement: ast.stmt, anew: Set[str], given: Set[str]) -> bool:
    """It takes away names of the step's, or updates what is not made anew all the time.

    For each new object the step would be traced anew.
    """
    if isinstance(statement, ast.Delete):
        return all(isinstance(each, ast.Name) and each.id in given for each in statement.targets)
    call = statement.value if isinstance(statement, ast.Expr) else None
    return (
        isinstance(call, ast.Call)
        and getattr(call.func, "attr", "") in _FOLLOWS
        and _root(call.func) not in anew
    )


def _is_leading(statement: ast.stmt, known: Set[str]) -> bool:
    """It only computes, with TensorFlow and what the step calls, too: not on slices of arrays."""
    if not isinstance(statement, ast.Assign | ast.AugAssign):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    names = all(
        isinstance(each, ast.Name)
        or (isinstance(each, ast.Tuple) and all(isinstance(e, ast.Name) for e in each.elts))
        for each in targets
    )
    calls = [node for node in ast.walk(statement.value) if isinstance(node, ast.Call)]
    computes = bool(calls) and all(_root(call.func) in known for call in calls)
    sliced = any(isinstance(node, ast.Slice) for node in ast.walk(statement.value))
    return names and computes and not sliced


def _called(statements: Sequence[ast.stmt]) -> set[str]:
    """Names of what they call, such as models; not those of Python's own."""
    calls = [n for s in statements for n in ast.walk(s) if isinstance(n, ast.Call)]
    return {call.func.id for call in calls if isinstance(call.func, ast.Name)} - set(dir(builtins))


def _imported(module: ast.Module, package: str) -> set[str]:
    """Names by which a package is known."""
    return {
        alias.asname or alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == package
    }


def _root(function: ast.expr) -> str:
    while isinstance(function, ast.Attribute):
        function = function.value
    return function.id if isinstance(function, ast.Name) else ""


def _opens_tape(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.With) and any(
        _is_tape(node) for item in statement.items for node in ast.walk(item.context_expr)
    )


def _only_tapes(function: ast.FunctionDef) -> bool:
    """It has a tape, and leaves the update to who calls it."""
    tapes = any(_is_tape(node) for node in ast.walk(function))
    return tapes and not any(_calls_method(each, _UPDATES) for each in function.body)


def _is_tape(node: ast.AST) -> bool:
    return getattr(node, "attr", getattr(node, "id", "")) == _TAPE


def _calls(statement: ast.stmt, names: Set[str]) -> bool:
    return isinstance(statement, ast.Assign | ast.Expr) and any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
        for node in ast.walk(statement)
    )


def _calls_method(statement: ast.stmt, names: Iterable[str]) -> bool:
    return any(
        isinstance(node, ast.Call) and getattr(node.func, "attr", "") in names
        for node in ast.walk(statement)
    )
