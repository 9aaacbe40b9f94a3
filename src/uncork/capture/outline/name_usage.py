"""Which names statements read, and which they give values to."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from uncork.capture.outline.movable_code import can_suppress_errors

Nodes: TypeAlias = ast.AST | Sequence[ast.AST]
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
# ``except*``, from Python 3.11 on.
TRY_STAR: Final[Any] = getattr(ast, "TryStar", ast.Try)


def stored_names(nodes: Nodes) -> set[str]:
    """Names of their own scope that get a value: not those of functions and comprehensions.

    Example:
        >>> sorted(stored_names(ast.parse("a = [b for b in c]; (d, e), f.g = h").body))
        ['a', 'd', 'e']
    """
    found: set[str] = set()
    for node in _of_scope(nodes):
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()):
                found.add(node.id)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Import() | ast.ImportFrom():
                found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                found.add(name)
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                found.add(name)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                walruses = [n.target for n in ast.walk(node) if isinstance(n, ast.NamedExpr)]
                found |= {target.id for target in walruses}
    return found


def loaded_names(nodes: Nodes) -> frozenset[str]:
    """All names that are read, in functions and comprehensions, too.

    Example:
        >>> sorted(loaded_names(ast.parse("a = [b for b in c]; d += 1").body))
        ['b', 'c', 'd']
    """
    every = [each for node in _listed(nodes) for each in ast.walk(node)]
    names = {n.id for n in every if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}
    changed = [n.target for n in every if isinstance(n, ast.AugAssign)]
    return frozenset(names | {n.id for n in changed if isinstance(n, ast.Name)})


def parameter_names(function: Any) -> set[str]:
    """Names of a function's parameters."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {each.arg for each in every if each is not None}


def local_names(function: Any) -> frozenset[str]:
    r"""Names that are local to a function: not those that it declares to be of another scope.

    Example:
        >>> function = ast.parse("def f(a):\n global b\n b = c = a").body[0]
        >>> sorted(local_names(function))
        ['a', 'c']
    """
    body = function.body if isinstance(function.body, list) else [function.body]
    foreign = {
        name
        for node in _of_scope(body)
        if isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names
    }
    return frozenset((parameter_names(function) | stored_names(body)) - foreign)


def find_functions(tree: ast.AST) -> list[ast.FunctionDef]:
    """All functions, wherever they stand."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def definitely_bound_names(statement: ast.stmt, bound: frozenset[str]) -> frozenset[str]:
    r"""Names that surely have a value behind a statement.

    Args:
        statement: What runs.
        bound: Those that had one before.

    Example:
        >>> (statement,) = ast.parse("if a:\n b = c = 1\nelse:\n b = 2").body
        >>> sorted(definitely_bound_names(statement, frozenset("a")))
        ['a', 'b']
    """
    match statement:
        case ast.If():
            return _behind(statement.body, bound) & _behind(statement.orelse, bound)
        case ast.With() if not can_suppress_errors(statement):
            items = {name for item in statement.items for name in stored_names(item)}
            return _behind(statement.body, bound | items)
        case ast.AnnAssign(value=None):
            return bound
        case (
            ast.For()
            | ast.While()
            | ast.With()
            | ast.Try()
            | ast.Match()
            | ast.Expr()
            | ast.Delete()
        ):
            # They may not run, or fail; what they take away is gone.
            gone = [node for node in ast.walk(statement) if isinstance(node, ast.Delete)]
            return bound - stored_names(gone)
        case _ if isinstance(statement, TRY_STAR):
            return bound
    walruses = {n.target.id for n in ast.walk(statement) if isinstance(n, ast.NamedExpr)}
    return bound | (stored_names(statement) - walruses)


def _behind(body: Sequence[ast.stmt], bound: frozenset[str]) -> frozenset[str]:
    for statement in body:
        bound = definitely_bound_names(statement, bound)
    return bound


def possibly_unbound_reads(statements: Sequence[ast.stmt]) -> list[str]:
    r"""Names that statements may read before they have surely given them a value, each once.

    Names of comprehensions and of functions within are their own.

    Example:
        >>> possibly_unbound_reads(ast.parse("a = b\nc = a + d\nfor e in f:\n g = e\nh = g").body)
        ['b', 'd', 'f', 'g']
    """
    found: list[str] = []
    _read(statements, frozenset(), found)
    return list(dict.fromkeys(found))


def _read(body: Sequence[ast.stmt], bound: frozenset[str], found: list[str]) -> None:
    for statement in body:
        match statement:
            case ast.If() | ast.While():
                found += _free(statement.test, bound)
                _read(statement.body, bound, found)
                _read(statement.orelse, bound, found)
            case ast.For():
                found += _free(statement.iter, bound)
                found += _free(statement.target, bound)
                _read(statement.body, bound | stored_names(statement.target), found)
                _read(statement.orelse, bound, found)
            case ast.With():
                inside = bound
                for item in statement.items:
                    found += _free(item, inside)
                    inside = inside | stored_names(item)
                _read(statement.body, inside, found)
            case _:
                found += _free(statement, bound)
        bound = definitely_bound_names(statement, bound)


def deferred_reads(node: ast.AST) -> frozenset[str]:
    r"""What a function, a class or a generator reads of the scopes around it while it is used.

    Example:
        >>> (function,) = ast.parse("def f(a=e):\n b = a\n return lambda c: (b, c, d)").body
        >>> sorted(deferred_reads(function))
        ['d']
    """
    if not isinstance(node, _Function):
        return frozenset(_free(node, frozenset()))
    body = node.body if isinstance(node.body, list) else [node.body]
    return frozenset(name for each in body for name in _free(each, local_names(node)))


def _free(node: ast.AST, bound: frozenset[str]) -> list[str]:
    """Names that an expression or a simple statement reads, as they stand there."""
    if isinstance(node, ast.Name):
        read = not isinstance(node.ctx, ast.Store) and node.id not in bound
        return [node.id] if read else []
    if isinstance(node, _Comprehension):
        first = _free(node.generators[0].iter, bound)  # it is read outside
        own = bound | {name for each in node.generators for name in stored_names(each.target)}
        inside = [n for n in ast.iter_child_nodes(node) if n is not node.generators[0]]
        rest = [node.generators[0].target, *node.generators[0].ifs, *inside]
        return [*first, *(name for each in rest for name in _free(each, own))]
    if isinstance(node, _Function):
        within = bound | local_names(node)
        body = node.body if isinstance(node.body, list) else [node.body]
        made_with = [n for n in ast.iter_child_nodes(node) if all(n is not each for each in body)]
        found = [name for each in made_with for name in _free(each, bound)]
        return [*found, *(name for each in body for name in _free(each, within))]
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        before = [] if node.target.id in bound else [node.target.id]
        return [*before, *_free(node.value, bound)]
    return _frees(node, bound)


def _frees(node: ast.AST, bound: frozenset[str]) -> list[str]:
    return [name for each in ast.iter_child_nodes(node) for name in _free(each, bound)]


def call_argument_ids(nodes: Sequence[ast.AST]) -> set[int]:
    """Functions and generators that are an argument of a call: it is taken to use them at once."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    named = [keyword.value for call in calls for keyword in call.keywords]
    return {id(each) for each in [*(arg for call in calls for arg in call.args), *named]}


def find_deferred_nodes(statements: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """What of a scope reads names when it is called, and not where it stands: the outer ones."""
    pending: list[ast.AST] = list(statements)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ClassDef | ast.GeneratorExp | _Function):
            yield node
        else:
            pending += ast.iter_child_nodes(node)


def _of_scope(nodes: Nodes) -> Iterator[ast.AST]:
    """Nodes of one scope; of a function or a class within it nothing but itself."""
    for node in _listed(nodes):
        yield node
        if isinstance(node, ast.Lambda | _Comprehension):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        yield from _of_scope(list(ast.iter_child_nodes(node)))


def _listed(nodes: Nodes) -> Sequence[ast.AST]:
    return [nodes] if isinstance(nodes, ast.AST) else nodes
