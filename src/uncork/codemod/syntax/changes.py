"""Changes of a syntax tree, made all at once: until then lines keep their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import libcst as cst

from uncork.codemod.syntax.script_tree import ScriptTree

ORDER_WITHIN: Final = 0
ORDER_AFTER: Final = 1
ORDER_END: Final = 2

Statement: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement


@dataclass(frozen=True)
class Change:
    """One node is another one.

    Attributes:
        node: Of the source as it is.
        transform: Gives what takes its place, of the node with all that is changed below it.
        order: Of several changes of one node, the lowest first: ``ORDER_WITHIN`` it,
            ``ORDER_AFTER`` it in its chain, at the ``ORDER_END`` of the chain.
    """

    node: cst.CSTNode
    transform: Callable[[Any], Any]
    order: int = ORDER_WITHIN


@dataclass(frozen=True)
class Insertion:
    """Lines of code that are new.

    Attributes:
        statement: The statement that they stand next to.
        lines: What to write.
        is_after: Behind it; otherwise before it.
        has_empty_line: With an empty line between.
    """

    statement: Statement
    lines: tuple[str, ...]
    is_after: bool = False
    has_empty_line: bool = False


Changes: TypeAlias = Sequence[Change | Insertion]


@dataclass
class _Changer(cst.CSTTransformer):
    """Makes them, from the leaves to the root."""

    source: ScriptTree
    changes: Changes

    def __post_init__(self) -> None:
        super().__init__()

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        changed = super().on_leave(original_node, updated_node)
        own = [c for c in self.changes if isinstance(c, Change) and c.node is original_node]
        for change in sorted(own, key=lambda each: each.order):
            changed = change.transform(changed)
        new = [c for c in self.changes if isinstance(c, Insertion) and c.statement is original_node]
        return self._with(new, changed) if new else changed

    def _with(self, new: Sequence[Insertion], statement: Any) -> Any:
        before = [s for each in new if not each.is_after for s in self._parsed(each)]
        after = [s for each in new if each.is_after for s in self._parsed(each)]
        if before:  # what is said above the statement is said above the new lines
            before[0] = before[0].with_changes(leading_lines=statement.leading_lines)
            apart = [cst.EmptyLine()] if any(each.has_empty_line for each in new) else []
            statement = statement.with_changes(leading_lines=apart)
        if after and any(each.has_empty_line for each in new):
            after[0] = after[0].with_changes(leading_lines=[cst.EmptyLine()])
        return cst.FlattenSentinel([*before, statement, *after])

    def _parsed(self, new: Insertion) -> list[Any]:
        config = self.source.module.config_for_parsing
        return [cst.parse_statement(line, config=config) for line in new.lines]


def apply_changes(source: ScriptTree, changes: Iterable[Change | Insertion]) -> bytes:
    r"""The text with all changes made; each byte that none of them touches stays as it was.

    Example:
        >>> source = ScriptTree(b"a = f( x )  # why\n", "train.py")
        >>> node = source.nodes_of_type(cst.Name)[1]
        >>> apply_changes(source, [Change(node, lambda _: cst.Name("g"))])
        b'a = g( x )  # why\n'
    """
    made = source.module.visit(_Changer(source, list(changes)))
    return made.bytes


@dataclass(frozen=True)
class RewriteSite:
    """What is there, and what takes its place.

    Attributes:
        node: Where.
        description: What becomes of it, in a few words.
        changes: What to write.
        refusal_reason: Why nothing is written; ``""`` where it is.
    """

    node: cst.CSTNode
    description: str = ""
    changes: tuple[Change, ...] = ()
    refusal_reason: str = ""
