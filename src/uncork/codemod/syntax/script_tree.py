"""A script's text as a tree that keeps its formatting, and where in it something stands.

LibCST is used because what it writes back is the user's own text, comments and line breaks
included, but for what was changed; the standard library's ``ast`` would write all of it anew.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final, TypeVar, cast

import libcst as cst
from libcst import helpers, metadata

from uncork.core.base.errors import EditRefused, WrongUse

N = TypeVar("N", bound=cst.CSTNode)
Parents = Mapping[cst.CSTNode, cst.CSTNode]

_ELSEWHERE: Final = (cst.Lambda, cst.BaseComp, cst.ClassDef)
_REPEATING: Final = (cst.For, cst.While, *_ELSEWHERE)


class ScriptTree:
    r"""One file of the user's.

    Args:
        text: As it lies on disk.
        path: Where.

    Raises:
        WrongUse: It is no Python that can be read.

    Example:
        >>> source = ScriptTree(b"model.compile('adam')\nmodel.fit(x)\n", "train.py")
        >>> source.code(source.call_at("train.py:2", "fit"))
        'model.fit(x)'
    """

    def __init__(self, text: bytes, path: str) -> None:
        self.path = path
        try:
            module = cst.parse_module(text)
        except (cst.ParserSyntaxError, SyntaxError, UnicodeDecodeError, LookupError) as error:
            raise WrongUse(
                f"cannot read {path} as Python: {str(error).splitlines()[0]}",
                "a script that Python can run",
                f"python -m py_compile {path}",
            ) from None
        self._wrapper = metadata.MetadataWrapper(module, unsafe_skip_copy=True)
        self.module = self._wrapper.module

    @property
    def first_statement(self) -> cst.SimpleStatementLine | cst.BaseCompoundStatement:
        """The first statement behind the docstring and what is taken ``from __future__``."""
        return next(s for s in self.module.body if not _must_be_first(s))

    def code(self, node: cst.CSTNode) -> str:
        """A node as it is written, without what surrounds it."""
        return self.module.code_for_node(node).strip()

    def line(self, node: cst.CSTNode) -> int:
        """The line that it is known by: of a method, that of its name, as Python has it."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            node = node.func.attr
        return int(self._positions[node].start.line)

    def lines(self, node: cst.CSTNode) -> range:
        """All lines that it stands on."""
        position = self._positions[node]
        return range(int(position.start.line), int(position.end.line) + 1)

    def at(self, node: cst.CSTNode) -> str:
        """``file.py:line``."""
        return f"{self.path}:{self.line(node)}"

    def nodes_of_type(self, kind: type[N]) -> list[N]:
        """Nodes of a kind, in the order of the text."""
        return [node for node in self._nodes if isinstance(node, kind)]

    def calls(self, name: str) -> list[cst.Call]:
        """All calls of a method of this name, whosever it is."""
        return [call for call in self.nodes_of_type(cst.Call) if method_name(call) == name]

    def calls_on_line(self, line: int, name: str) -> list[cst.Call]:
        """Those that Python knows by a line: their name's, or, in 3.10, the first of a chain."""
        found = [call for call in self.calls(name) if self.line(call) == line]
        if found or sys.version_info >= (3, 11):
            return found
        return [
            call
            for call in self.calls(name)
            if any(arg.keyword or arg.star for arg in call.args)
            and self._positions[call].start.line == line
        ]

    def call_at(self, at: str | None, name: str, first_argument: str = "") -> cst.Call:
        """The one call of a method on a line.

        Args:
            at: ``file.py:line``.
            name: Of the method.
            first_argument: Its first argument, where there are several on that line.

        Raises:
            EditRefused: There is no such call in this file, or more than one.
        """
        line = self.line_of(at, name)
        found = self.calls_on_line(line, name)
        if len(found) > 1 and first_argument:
            named = [c for c in found if c.args and self.code(c.args[0].value) == first_argument]
            found = named or found
        if len(found) != 1:
            number = "no call" if not found else f"{len(found)} calls"
            raise EditRefused(f"{number} of {name} on line {line}", f"one .{name}(...) there")
        return found[0]

    def line_of(self, at: str | None, what: str) -> int:
        """The line of a place, which must be in this file.

        Raises:
            EditRefused: It is not, or nobody knows.
        """
        file, _, line = (at or "").rpartition(":")
        if not file:
            raise EditRefused(f"the plan does not contain the line of its {what}")
        if os.path.abspath(file) != os.path.abspath(self.path):  # noqa: PTH100 - links stay
            raise EditRefused(f"its {what} is in {file}, and the plan has no digest of that file")
        return int(line)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """What a node is a part of."""
        return self._parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """What it is a part of, and that of, and so on."""
        above = self.parent(node)
        while above is not None:
            yield above
            above = self.parent(above)

    def enclosing_function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The function that it stands in; None for the script itself."""
        functions = (n for n in self.ancestors(node) if isinstance(n, cst.FunctionDef))
        return next(functions, None)

    def enclosing_statement(self, node: cst.CSTNode) -> cst.SimpleStatementLine:
        """The line of code that a node is a part of.

        Raises:
            EditRefused: It is none by itself: ``if model.fit(x): ...``.
        """
        for each in self.ancestors(node):
            if isinstance(each, cst.SimpleStatementLine):
                return each
            if isinstance(each, cst.BaseCompoundStatement | cst.SimpleStatementSuite):
                break
        raise EditRefused(f"line {self.line(node)} is not a statement of its own")

    def runs_once(self, node: cst.CSTNode) -> bool:
        r"""Whether all tells that a line runs once: what is written there serves nothing else.

        Example:
            >>> text = b"def load(): d.map(f)\nload()\nload()\nd.batch(2)\n"
            >>> source = ScriptTree(text, "train.py")
            >>> [source.runs_once(source.calls(name)[0]) for name in ("map", "batch")]
            [False, True]
        """
        return self._called_once(node, _REPEATING)

    def has_one_caller(self, node: cst.CSTNode) -> bool:
        r"""Whether all tells that a line is reached in one way only, however often.

        Example:
            >>> text = b"def run(d):\n for x in d: pass\nfor _ in range(9): run(a)\n"
            >>> source = ScriptTree(text, "train.py")
            >>> source.has_one_caller(source.nodes_of_type(cst.For)[0])
            True
        """
        return self._called_once(node, _ELSEWHERE)

    def _called_once(self, node: cst.CSTNode, repeating: tuple[type[cst.CSTNode], ...]) -> bool:
        seen: list[cst.FunctionDef] = []
        while True:
            ways = (n for n in self.ancestors(node) if isinstance(n, (*repeating, cst.FunctionDef)))
            function = next(ways, None)
            if function is None:
                return True
            if not isinstance(function, cst.FunctionDef) or function in seen:
                return False
            used = self.uses(function.name.value)
            call = self.parent(used[0]) if len(used) == 1 and not function.decorators else None
            # What is handed on is called by somebody else, who knows how often.
            if not isinstance(call, cst.Call) or call.func is not used[0]:
                return False
            seen.append(function)
            node = call

    def uses(self, name: str) -> list[cst.Name]:
        """Where a name is read; neither attributes nor keywords of that name."""
        return [n for n in self.nodes_of_type(cst.Name) if n.value == name and self._is_read(n)]

    def _is_read(self, name: cst.Name) -> bool:
        parent = self.parent(name)
        match parent:
            case cst.Attribute():
                return parent.value is name
            case cst.Arg():
                return parent.value is name
            case cst.FunctionDef() | cst.ClassDef() | cst.Param():
                return getattr(parent, "name", None) is not name
            case cst.AssignTarget() | cst.ImportAlias() | cst.AsName():
                return False
        return True

    def module_alias(self, module: str) -> str:
        """The name that a module has in the script: ``tf`` for ``import tensorflow as tf``.

        Raises:
            EditRefused: It has none there.
        """
        found = dict(self._imported())
        if module == "keras" and "keras" not in found and "tensorflow" in found:
            return f"{found['tensorflow']}.keras"
        if module not in found:
            raise EditRefused(f"the script does not import {module}")
        return found[module]

    def is_imported(self, node: cst.CSTNode) -> bool:
        """It is a name that one of the script's imports gives: ``re``."""
        return isinstance(node, cst.Name) and node.value in {name for _, name in self._imported()}

    def imported_from(self, *modules: str) -> dict[str, str]:
        """What is imported from any of these modules, by the name that it has in the script."""
        parts = ((name, full.rpartition(".")) for full, name in self._imported())
        return {name: own for name, (module, _, own) in parts if module in modules}

    def find_function(self, name: str) -> cst.FunctionDef | None:
        """The script's own function, or method, of a name; None where it has none."""
        return next((f for f in self.nodes_of_type(cst.FunctionDef) if f.name.value == name), None)

    def find_import(self, name: str) -> cst.SimpleStatementLine:
        """The import that gives the script this name; of ``a.b``, that is ``a``."""
        return next(
            statement
            for statement in self.imports()
            if any(own.partition(".")[0] == name for _, own in _imported_by(statement))
        )

    def _imported(self) -> Iterator[tuple[str, str]]:
        for statement in self.imports():
            yield from _imported_by(statement)

    def imports(self) -> list[cst.SimpleStatementLine]:
        """The script's own import statements, in order, those in functions left out."""
        lines = (s for s in self.module.body if isinstance(s, cst.SimpleStatementLine))
        return [s for s in lines if isinstance(s.body[0], cst.Import | cst.ImportFrom)]

    @cached_property
    def _nodes(self) -> list[cst.CSTNode]:
        found: list[cst.CSTNode] = []
        waiting: list[cst.CSTNode] = [self.module]
        while waiting:
            found.append(waiting.pop())
            waiting.extend(reversed(found[-1].children))
        return found

    @cached_property
    def _positions(self) -> Mapping[cst.CSTNode, Any]:
        return self._wrapper.resolve(metadata.PositionProvider)

    @cached_property
    def _parents(self) -> Parents:
        return cast(Parents, self._wrapper.resolve(metadata.ParentNodeProvider))


def method_name(call: cst.Call) -> str:
    """The name of the method that is called; ``""`` where it is a function."""
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def receiver(call: cst.Call) -> cst.BaseExpression:
    """Whose method it is."""
    assert isinstance(call.func, cst.Attribute)
    return call.func.value


def find_argument(call: cst.Call, keyword: str) -> cst.Arg | None:
    """What is given by this keyword."""
    found = (arg for arg in call.args if arg.keyword and arg.keyword.value == keyword)
    return next(found, None)


def _imported_by(statement: cst.SimpleStatementLine) -> Iterator[tuple[str, str]]:
    """Full names, and those that the script knows them by."""
    for part in statement.body:
        names = part.names if isinstance(part, cst.Import | cst.ImportFrom) else ()
        prefix = _from(part) if isinstance(part, cst.ImportFrom) else ""
        for alias in () if isinstance(names, cst.ImportStar) else names:
            full = f"{prefix}{alias.evaluated_name}"
            name = alias.evaluated_alias or alias.evaluated_name
            yield "keras" if full == "tensorflow.keras" else full, name


def _from(part: cst.ImportFrom) -> str:
    """``"tensorflow."`` of ``from tensorflow import keras``."""
    module = helpers.get_full_name_for_node(part.module) if part.module else None
    return f"{module}." if module and not part.relative else ""


def _must_be_first(statement: cst.BaseStatement) -> bool:
    """The script's docstring, and what it takes ``from __future__``."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    first = statement.body[0]
    if isinstance(first, cst.ImportFrom):
        return isinstance(first.module, cst.Name) and first.module.value == "__future__"
    texts = cst.SimpleString | cst.ConcatenatedString
    return isinstance(first, cst.Expr) and isinstance(first.value, texts)
