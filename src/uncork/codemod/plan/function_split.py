"""A map function as two: its statements before a cut, and those behind it.

The first part gives the second what lives across the cut, as a tuple. Only where each statement is
whole on one side, and where all that crosses may be an element of a dataset: what Python alone
knows, such as a number or a list, is none. What is left unclear is left to the plan's own cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import libcst as cst

from uncork.codemod.syntax.script_tree import ScriptTree
from uncork.core.base.errors import EditRefused
from uncork.core.evidence.stage import MapPrefix

_Statement: TypeAlias = cst.CSTNode
# What these make is Python's own, and would come back from a dataset as a tensor, or not at all.
_PYTHON_VALUES: Final = (
    cst.BaseNumber, cst.BaseString, cst.List, cst.Tuple, cst.Set, cst.BaseComp, cst.Lambda,
    cst.Comparison,
)  # fmt: skip
_PYTHON_CALLS: Final = frozenset({"len", "int", "float", "bool", "list", "tuple", "range", "str"})
_SCOPES: Final = (
    cst.Yield, cst.Await, cst.Nonlocal, cst.Global, cst.Del, cst.Import, cst.ImportFrom,
    cst.NamedExpr, cst.FunctionDef, cst.ClassDef,
)  # fmt: skip


@dataclass(frozen=True)
class FunctionSplit:
    """Two functions in the place of one.

    Attributes:
        function: The script's own.
        names: Of the first part, and of the second.
        crossing: Names that the first part gives to the second.
        cut: Index of the second part's first statement.
    """

    function: cst.FunctionDef
    names: tuple[str, str]
    crossing: tuple[str, ...]
    cut: int

    def written(self, original: cst.FunctionDef, *, is_kept: bool) -> Any:
        """The two functions; with the whole one made of them where others call it."""
        body = list(original.body.body)
        documented = is_kept and _is_documented(body)
        empty = _distance(original)
        first = original.with_changes(
            name=cst.Name(self.names[0]),
            body=original.body.with_changes(
                body=[*body[1 if documented else 0 : self.cut], _returning(self._tuple)]
            ),
        )
        rest: list[Any] = body[self.cut :]
        rest[0] = rest[0].with_changes(leading_lines=_without_empty(rest[0].leading_lines))
        second = original.with_changes(
            name=cst.Name(self.names[1]),
            params=cst.Parameters([cst.Param(cst.Name(name)) for name in self.crossing]),
            returns=original.returns,
            body=original.body.with_changes(body=rest),
            leading_lines=empty,
        )
        if not is_kept:
            return cst.FlattenSentinel([first, second])
        given = ", ".join(param.name.value for param in original.params.params)
        star = "*" if len(self.crossing) > 1 else ""
        call = f"{self.names[1]}({star}{self.names[0]}({given}))"
        whole = original.with_changes(
            body=original.body.with_changes(
                body=[*(body[:1] if documented else ()), _returning(call)]
            ),
            leading_lines=empty,
        )
        # The first part had the comments above the function.
        return cst.FlattenSentinel([first.with_changes(returns=None), second, whole])

    @property
    def _tuple(self) -> str:
        return ", ".join(self.crossing)


def split_function(
    source: ScriptTree, function: cst.FunctionDef, prefix: MapPrefix
) -> FunctionSplit:
    """Where the graph of a function was cut, as a place between two of its statements.

    Args:
        source: The script.
        function: That a map calls.
        prefix: Its first part, with the lines at the cut.

    Raises:
        EditRefused: No place in the source says the same.
    """
    name = function.name.value
    _check_plain(function)
    body = list(function.body.body)
    last, rest = (_statement_at(source, body, at, name) for at in (prefix.last_at, prefix.rest_at))
    if last > rest or (last == rest and _has_nested_calls(body[rest])):
        raise EditRefused(
            f"line {source.line(body[rest])} of {name} has work of both parts"
            if last == rest
            else f"statements of both parts of {name} alternate"
        )
    if rest == (1 if _is_documented(body) else 0):
        raise EditRefused(f"no statement of {name} belongs to its first part alone")
    _check_returns(body, rest, name)
    crossing = _crossing(function, body, rest)
    if not crossing:
        raise EditRefused(f"the second part of {name} needs nothing of the first")
    return FunctionSplit(function, _free_names(source, name), crossing, rest)


def _check_plain(function: cst.FunctionDef) -> None:
    name, given = function.name.value, function.params
    others = (given.kwonly_params, given.posonly_params, given.star_kwarg)
    starred = isinstance(given.star_arg, cst.Param)
    if any(others) or starred or any(param.default for param in given.params):
        raise EditRefused(f"{name} has other arguments than plain ones")
    if function.decorators or function.asynchronous:
        raise EditRefused(f"{name} has a decorator")
    if not isinstance(function.body, cst.IndentedBlock):
        raise EditRefused(f"the body of {name} stands on its first line")
    found = next((n for s in function.body.body for n in _nodes(s) if isinstance(n, _SCOPES)), None)
    if found is not None:
        raise EditRefused(f"{name} contains '{type(found).__name__.lower()}'")


def _check_returns(body: Sequence[_Statement], cut: int, name: str) -> None:
    returns = [i for i, s in enumerate(body) if any(isinstance(n, cst.Return) for n in _nodes(s))]
    if returns != [len(body) - 1] or not isinstance(body[-1], cst.SimpleStatementLine):
        raise EditRefused(f"{name} does not return at its end alone")
    if cut > len(body) - 1:
        raise EditRefused(f"the second part of {name} is empty")


def _statement_at(source: ScriptTree, body: Sequence[_Statement], at: str | None, name: str) -> int:
    """Index of the statement that a line is part of."""
    line = source.line_of(at, f"cut of {name}")
    for index, statement in enumerate(body):
        if line in source.lines(statement):
            return index
    raise EditRefused(f"line {line} is not in {name}")


def _has_nested_calls(statement: _Statement) -> bool:
    """Whether a statement does more than one thing: what of it is random is not plain then."""
    return sum(isinstance(node, cst.Call) for node in _nodes(statement)) > 1


def _crossing(function: cst.FunctionDef, body: Sequence[_Statement], cut: int) -> tuple[str, ...]:
    """Names that are set before the cut and read behind it, in the order in which they are read."""
    known = {param.name.value for param in function.params.params}
    for statement in body[:cut]:
        known.update(_stored(statement))
    found: dict[str, None] = {}
    for statement in body[cut:]:
        found.update(dict.fromkeys(n for n in _read(statement) if n in known))
        if isinstance(statement, cst.SimpleStatementLine):
            known -= set(_stored(statement)) - found.keys()
    for statement in body[:cut]:
        _check_tensors(statement, found)
    return tuple(found)


def _check_tensors(statement: _Statement, crossing: Iterable[str]) -> None:
    """Refuse what may be no tensor, or no nest of them, where it would cross the cut."""
    for node in _nodes(statement):
        if not isinstance(node, cst.Assign | cst.AnnAssign | cst.For):
            continue
        stored = set(_targets(node)) & set(crossing)
        value = node.value if isinstance(node, cst.Assign | cst.AnnAssign) else None
        if stored and _is_python(value):
            raise EditRefused(
                f"{', '.join(sorted(stored))} may be a Python value, which a dataset would turn "
                "into a tensor"
            )


def _is_python(value: cst.BaseExpression | None) -> bool:
    if value is None or isinstance(value, _PYTHON_VALUES):
        return True
    if isinstance(value, cst.UnaryOperation):
        return _is_python(value.expression)
    if isinstance(value, cst.Name):
        return value.value in ("True", "False", "None")
    called = value.func if isinstance(value, cst.Call) else None
    if isinstance(called, cst.Name) and called.value in _PYTHON_CALLS:
        return True
    return any(
        isinstance(node, cst.Attribute) and node.attr.value == "shape" for node in _nodes(value)
    )


def _stored(node: cst.CSTNode) -> list[str]:
    return [name for each in _nodes(node) for name in _targets(each)]


def _targets(node: cst.CSTNode) -> list[str]:
    """Names that a statement, or a part of one, sets."""
    match node:
        case cst.Assign():
            targets: list[cst.CSTNode] = [each.target for each in node.targets]
        case cst.AugAssign() | cst.AnnAssign() | cst.For():
            targets = [node.target]
        case cst.WithItem() if node.asname is not None:
            targets = [node.asname.name]
        case _:
            return []
    plain = (each for target in targets for each in _unpacked(target))
    return [each.value for each in plain if isinstance(each, cst.Name)]


def _unpacked(target: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _unpacked(element.value)
    else:
        yield target


def _read(statement: _Statement) -> Iterator[str]:
    """Names that may be read in a statement, in the order of the text."""
    set_here = {id(n) for each in _nodes(statement) for n in _target_nodes(each)}
    for node in _nodes(statement):
        if isinstance(node, cst.Attribute):
            continue
        for child in node.children:
            if not isinstance(child, cst.Name) or id(child) in set_here:
                continue
            if isinstance(node, cst.Arg) and node.keyword is child:
                continue
            yield child.value
    for node in _nodes(statement):
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
            yield node.value.value


def _target_nodes(node: cst.CSTNode) -> list[cst.CSTNode]:
    # What an augmented assignment sets it reads, too.
    if not isinstance(node, cst.Assign | cst.AnnAssign):
        return []
    targets = (
        [each.target for each in node.targets] if isinstance(node, cst.Assign) else [node.target]
    )
    return [each for target in targets for each in _unpacked(target)]


def _nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _nodes(child)


def _free_names(source: ScriptTree, name: str) -> tuple[str, str]:
    names = (f"{name}_deterministic", f"{name}_random")
    taken = [each for each in names if each in source.module.code]
    if taken:
        raise EditRefused(f"the script already has a {taken[0]}")
    return names


def _is_documented(body: Sequence[_Statement]) -> bool:
    first = body[0] if body else None
    if not isinstance(first, cst.SimpleStatementLine) or not isinstance(first.body[0], cst.Expr):
        return False
    return isinstance(first.body[0].value, cst.SimpleString | cst.ConcatenatedString)


def _returning(code: str) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([cst.Return(cst.parse_expression(code))])


def _without_empty(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """Comments stay above their statement."""
    kept = list(lines)
    while kept and kept[0].comment is None:
        del kept[0]
    return kept


def _distance(function: cst.FunctionDef) -> list[cst.EmptyLine]:
    """Empty lines between two functions, as above this one."""
    above = [line for line in function.leading_lines if line.comment is None]
    return [cst.EmptyLine(indent=False) for _ in above] or [cst.EmptyLine(indent=False)] * 2
