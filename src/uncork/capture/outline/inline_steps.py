"""Training steps that stand in a loop itself: what they read of their scope, and leave in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from uncork.capture.outline.movable_code import can_inspect_names, can_suppress_errors
from uncork.capture.outline.name_usage import (
    TRY_STAR,
    call_argument_ids,
    deferred_reads,
    definitely_bound_names,
    find_deferred_nodes,
    loaded_names,
    local_names,
    parameter_names,
    possibly_unbound_reads,
    stored_names,
)
from uncork.capture.outline.step_statements import find_step_range, shorten_tape_blocks

_NOT_MOVED: Final = (
    ast.Return | ast.Global | ast.Nonlocal | ast.Import | ast.ImportFrom | ast.FunctionDef
    | ast.AsyncFunctionDef | ast.ClassDef | ast.Try | TRY_STAR | ast.Match | ast.AsyncFor
    | ast.AsyncWith | ast.Yield | ast.YieldFrom | ast.Await | ast.NamedExpr
)  # fmt: skip
_OF_METHODS: Final = frozenset({"super", "__class__"})

Function: TypeAlias = ast.FunctionDef
Loop: TypeAlias = ast.For | ast.While


@dataclass(frozen=True)
class InlineStep:
    """Statements that make a function.

    Attributes:
        body: In which they stand.
        start: Number of the first one there.
        end: Behind the last one.
        argument_names: Names that it reads before it gives them away, and that are not known
            everywhere.
        result_names: Names that it gives away, and that are read elsewhere or in its next run.
    """

    body: list[ast.stmt]
    start: int
    end: int
    argument_names: tuple[str, ...]
    result_names: tuple[str, ...]


@dataclass(frozen=True)
class _Place:
    """Where statements stand.

    Attributes:
        module: The whole script.
        scope: The function, or the module.
        outer: Names of functions around that one.
        bound: Names that surely have a value there.
        loops: Around them in their scope, outer ones first.
        behind: What may run after them: what follows, and loops around them once more.
        handled: Names that are read where an error of theirs is handled.
        is_tried: An error of theirs is handled within the innermost loop.
        in_method: The scope is a method, or a function in one.
    """

    module: ast.Module
    scope: ast.Module | Function
    outer: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()
    loops: tuple[Loop, ...] = ()
    behind: tuple[Sequence[ast.stmt], ...] = ()
    handled: frozenset[str] = frozenset()
    is_tried: bool = False
    in_method: bool = False


def find_inline_steps(tree: ast.Module) -> list[InlineStep]:
    """All that stand in a loop, and that can be moved into a function.

    Args:
        tree: Of a script.
    """
    if can_inspect_names(tree):
        return []
    return list(_within(tree.body, _Place(tree, tree)))


def _within(body: list[ast.stmt], place: _Place) -> Iterator[InlineStep]:
    """Of these statements and all that stand in them; the inner ones, where there are several."""
    begin, inner = place, list[InlineStep]()
    for number, statement in enumerate(body):
        behind = (*place.behind, body[number + 1 :])
        inner += _below(statement, replace(place, behind=behind))
        place = replace(place, bound=definitely_bound_names(statement, place.bound))
    own = _found(body, begin) if begin.loops and not inner else None
    yield from inner if own is None else [own]


def _below(statement: ast.stmt, place: _Place) -> Iterator[InlineStep]:
    match statement:
        case ast.FunctionDef(decorator_list=[]):  # AutoGraph reads a tf.function from the file
            yield from _within(statement.body, _in_function(statement, place))
        case ast.ClassDef():
            for method in statement.body:
                if isinstance(method, ast.FunctionDef) and not method.decorator_list:
                    yield from _within(method.body, _in_function(method, place, in_method=True))
        case ast.For() | ast.While():
            yield from _within(statement.body, _in_loop(statement, place))
            yield from _within(statement.orelse, place)
        case ast.If():
            yield from _within(statement.body, place)
            yield from _within(statement.orelse, place)
        case ast.With():
            items = {name for item in statement.items for name in stored_names(item)}
            inside = replace(place, bound=place.bound | items)
            if can_suppress_errors(statement):
                inside = _tried([], inside)
            yield from _within(statement.body, inside)
        case ast.Try():
            inside = _tried([*statement.handlers, *statement.finalbody], place)
            inside = replace(inside, behind=(*inside.behind, statement.orelse))
            yield from _within(statement.body, inside)


def _tried(handling: Sequence[ast.AST], place: _Place) -> _Place:
    """Where an error does not end all: what is read from there on is read of a step cut short."""
    later = {name for run in place.behind for name in possibly_unbound_reads(run)}
    return replace(place, handled=place.handled | loaded_names(handling) | later, is_tried=True)


def _in_loop(loop: Loop, place: _Place) -> _Place:
    again = loop.body if isinstance(loop, ast.For) else [ast.Expr(loop.test), *loop.body]
    return replace(
        place,
        bound=place.bound | (stored_names(loop.target) if isinstance(loop, ast.For) else set()),
        loops=(*place.loops, loop),
        behind=(*place.behind, loop.orelse, again),
        is_tried=False,
    )


def _in_function(function: Function, place: _Place, *, in_method: bool = False) -> _Place:
    outer = place.outer
    if isinstance(place.scope, ast.FunctionDef):
        outer = outer | local_names(place.scope)
    return _Place(
        place.module,
        function,
        outer=outer,
        bound=frozenset(parameter_names(function)),
        in_method=in_method or place.in_method,
    )


def _found(body: list[ast.stmt], place: _Place) -> InlineStep | None:
    """The step among these statements."""
    shorten_tape_blocks(body, place.behind)
    found = find_step_range(body, place.module, stored_names(list(place.loops)))
    if found is None or place.is_tried:
        return None
    begin, end = found
    for statement in body[:begin]:
        place = replace(place, bound=definitely_bound_names(statement, place.bound))
    statements = body[begin:end]
    reads = possibly_unbound_reads(statements)
    arguments = [name for name in reads if _is_varying(name, place)]
    if not _is_plain(statements, {*arguments, *stored_names(statements)}, place):
        return None
    live = {name for run in (*place.behind, body[end:]) for name in possibly_unbound_reads(run)}
    results = [name for name in _in_order(statements) if name in live]
    sure: frozenset[str] = frozenset()
    for statement in statements:
        sure = definitely_bound_names(statement, sure)
    if not set(arguments) <= place.bound | place.outer or not set(results) <= sure:
        return None
    return InlineStep(body, begin, end, tuple(arguments), tuple(results))


def _is_plain(statements: Sequence[ast.stmt], names: set[str], place: _Place) -> bool:
    """Nothing about them depends on where they stand.

    Args:
        statements: All of a step.
        names: That it is given, or gives away: nobody else may change or read them meanwhile.
        place: Where they stand.
    """
    nodes = [node for statement in statements for node in ast.walk(statement)]
    private = place.in_method and any(
        isinstance(n, ast.Attribute) and n.attr.startswith("__") and not n.attr.endswith("__")
        for n in nodes
    )
    declared = {
        name
        for node in ast.walk(place.module)
        if isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names
    }
    inside = {id(node) for node in nodes}
    lazy = [deferred_reads(n) for n in find_deferred_nodes(place.scope.body) if id(n) not in inside]
    kept = [
        deferred_reads(n)
        for n in find_deferred_nodes(statements)
        if id(n) not in call_argument_ids(nodes)
    ]
    given = stored_names(statements)
    return not (
        private
        or any(isinstance(node, _NOT_MOVED) for node in nodes)
        or any(_leaves(statement) for statement in statements)
        or any(isinstance(n, ast.Name) and n.id in _OF_METHODS for n in nodes)
        or names & declared
        or names & frozenset().union(*kept)
        or given & place.handled.union(*lazy)
    )


def _leaves(statement: ast.stmt) -> bool:
    """It ends or goes on with a loop that is not its own."""
    if isinstance(statement, ast.Break | ast.Continue):
        return True
    if isinstance(statement, ast.For | ast.While):
        return any(_leaves(each) for each in statement.orelse)
    return any(
        _leaves(each) for each in ast.iter_child_nodes(statement) if isinstance(each, ast.stmt)
    )


def _is_varying(name: str, place: _Place) -> bool:
    """It has to be handed over: a function of the module's does not see it, or sees it changing."""
    if isinstance(place.scope, ast.Module):
        return name in stored_names(list(place.loops))
    return name in local_names(place.scope) or name in place.outer


def _in_order(statements: Sequence[ast.stmt]) -> list[str]:
    """Names that they give away, each once, as they stand there."""
    given = stored_names(statements)
    nodes = [node for statement in statements for node in ast.walk(statement)]
    names = [n for n in nodes if isinstance(n, ast.Name) and n.id in given]
    names.sort(key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys(node.id for node in names))
