"""``.map(f_deterministic).cache().shuffle(n).map(f_random)``: a map cut in two, a cache between.

A cache belongs before a shuffle or a repeat, or each epoch would have the order of the first. The
maps whose elements it keeps move before it.

The random numbers stay the same, also where the script sets a seed: TensorFlow counts the random
ops of each function from 0, and all of them are in the second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import libcst as cst

from uncork.codemod.plan.function_split import FunctionSplit, split_function
from uncork.codemod.plan.stage_calls import find_shared_dataset, find_stage_call
from uncork.codemod.syntax.call_syntax import break_long_chain
from uncork.codemod.syntax.changes import ORDER_AFTER, ORDER_END, Change, Changes, Insertion
from uncork.codemod.syntax.script_tree import ScriptTree, receiver
from uncork.core.base.errors import EditRefused
from uncork.core.documents.plan import Plan
from uncork.core.evidence.stage import Stage


@dataclass(frozen=True)
class SplitRequest:
    """What an optimization does to one map.

    Attributes:
        stage: The map.
        is_split: Its function is cut in two.
        is_cached: What it gives, or the first part of it, is kept.
    """

    stage: Stage
    is_split: bool
    is_cached: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Of the edits, in order, as :func:`uncork.rewrite` takes them."""
        return ("split_map",) * self.is_split + ("cache",) * self.is_cached


def write_split(source: ScriptTree, plan: Plan, request: SplitRequest) -> Changes:
    """The map as two calls, with what belongs between them.

    Raises:
        EditRefused: The source does not say where to cut, or more than this map would have to move.
    """
    stage = request.stage
    call = find_stage_call(source, plan, stage, stage.kind)
    low = _lowest_call(source, plan, request, call)
    split = _split_of(source, call, stage, low) if request.is_split else None
    tf = source.module_alias("tensorflow")
    name = split.names[0] if split else source.code(_function_of(call).value)
    parallel = f"num_parallel_calls={tf}.data.AUTOTUNE, deterministic=True"
    made = [("map", f"{name}, {parallel}" if split else _arguments(source, call))]
    made += [("cache", "")] if request.is_cached else []
    if split is None and low is call:
        return [Change(call, lambda now: _linked(now, call, made[1:]), ORDER_AFTER)]
    changes = [Change(low, lambda now: _below(now, low, made), ORDER_AFTER)]
    if split is None:
        return [*changes, Change(call, _removed, ORDER_END)]
    changes.append(Change(_chain_of(source, call), break_long_chain, ORDER_END))
    changes.append(Change(_function_of(call).value, lambda _: cst.Name(split.names[1])))
    return [*changes, Change(split.function, _SplitWriter(source, split))]


@dataclass
class _SplitWriter:
    """Writes the two parts of a function, once for all maps that call it.

    Attributes:
        source: The script.
        split: Where the function is cut.
        map_count: How many maps call its parts from now on.
    """

    source: ScriptTree
    split: FunctionSplit
    map_count: int = 1

    def __call__(self, now: cst.FunctionDef) -> Any:
        """The whole function stays where anything else calls it."""
        uses = self.source.uses(self.split.function.name.value)
        return self.split.written(now, is_kept=len(uses) > self.map_count)


def merge_splits(earlier: Changes, later: Changes) -> list[Change | Insertion]:
    """All changes; a function that maps of both call is cut in two once.

    Raises:
        EditRefused: They cut it at different places.
    """
    writers = {
        id(change.node): change.transform
        for change in earlier
        if isinstance(change, Change) and isinstance(change.transform, _SplitWriter)
    }
    found, shared = list(earlier), []
    for change in later:
        writer = change.transform if isinstance(change, Change) else None
        known = writers.get(id(change.node)) if isinstance(change, Change) else None
        if known is None or not isinstance(writer, _SplitWriter):
            found.append(change)
        elif known.split == writer.split:
            shared.append(known)
        else:
            name = known.split.function.name.value
            raise EditRefused(f"{name} is cut at another place for another map")
    for known in shared:  # only now: of what is refused nothing counts
        known.map_count += 1
    return found


def _split_of(source: ScriptTree, call: cst.Call, stage: Stage, low: cst.Call) -> FunctionSplit:
    prefix = stage.deterministic_prefix or stage.narrow_prefix
    given = _function_of(call).value
    if not isinstance(given, cst.Name):
        raise EditRefused(f"the map on line {source.line(call)} gets a function without a name")
    function = _only_function(source, given.value)
    if source.enclosing_function(function) not in (None, source.enclosing_function(low)):
        raise EditRefused(f"{given.value} is not known on line {source.line(low)}")
    if source.line(function) > source.line(low):
        raise EditRefused(f"{given.value} is defined below line {source.line(low)}")
    if prefix is None or prefix.last_at is None or prefix.rest_at is None:
        raise EditRefused(f"the plan does not contain the lines of the cut of {given.value}")
    return split_function(source, function, prefix)


def _only_function(source: ScriptTree, name: str) -> cst.FunctionDef:
    found = [f for f in source.nodes_of_type(cst.FunctionDef) if f.name.value == name]
    targets = (source.code(t.target) for t in source.nodes_of_type(cst.AssignTarget))
    if len(found) != 1 or name in set(targets):
        raise EditRefused(f"the script does not define {name} exactly once")
    return found[0]


def _lowest_call(source: ScriptTree, plan: Plan, request: SplitRequest, call: cst.Call) -> cst.Call:
    """The call before which the map, or its first part, has to stand."""
    stage = request.stage
    point = stage.cache_point
    above = point.placed_before if request.is_cached and point else ()
    if not above:
        return call
    stages = plan.before.stages[stage.index - len(above) : stage.index]
    if stage.kind != "map" or tuple(each.kind for each in stages) != above:
        raise EditRefused(
            f"the cache belongs before the {' and the '.join(above)}, and other stages between "
            "would have to move"
        )
    calls = [find_stage_call(source, plan, each, each.kind) for each in stages]
    for each in calls:
        shared = find_shared_dataset(source, each)
        if shared:
            raise EditRefused(f"not only the training reads '{shared}'")
    if not _follow(source, [*calls, call]):
        raise EditRefused(f"the calls before line {source.line(call)} are not one chain")
    return calls[0]


def _follow(source: ScriptTree, calls: Sequence[cst.Call]) -> bool:
    """Each call is made on what the one before gives, in one chain."""
    pairs = pairwise(calls)
    return all(receiver(above) is below for below, above in pairs)


def _function_of(call: cst.Call) -> cst.Arg:
    """What a map is to call."""
    first = call.args[0] if call.args else None
    if first is None or first.star or (first.keyword and first.keyword.value != "map_func"):
        raise EditRefused("the map gets its function in another way")
    return first


def _chain_of(source: ScriptTree, call: cst.Call) -> cst.Call:
    """The whole chain of calls that one is a link of."""
    while True:
        link = source.parent(call)
        above = source.parent(link) if isinstance(link, cst.Attribute) else None
        if not isinstance(above, cst.Call) or above.func is not link:
            return call
        call = above


def _arguments(source: ScriptTree, call: cst.Call) -> str:
    return ", ".join(
        source.code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in call.args
    )


def _below(now: cst.Call, original: cst.Call, links: Sequence[tuple[str, str]]) -> cst.Call:
    """A call on what new links make of what it was called on."""
    assert isinstance(now.func, cst.Attribute)
    made = _linked(now.func.value, original, links)
    return now.with_changes(func=now.func.with_changes(value=made))


def _linked(
    value: cst.BaseExpression, original: cst.Call, links: Sequence[tuple[str, str]]
) -> cst.BaseExpression:
    """More links behind an expression, on lines of their own where the call's own link is."""
    assert isinstance(original.func, cst.Attribute)
    dot = original.func.dot
    space = dot.whitespace_before
    if isinstance(space, cst.ParenthesizedWhitespace):
        space = space.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])
    for name, arguments in links:
        made = cst.parse_expression(f"_.{name}({arguments})")
        assert isinstance(made, cst.Call)
        assert isinstance(made.func, cst.Attribute)
        around = {"lpar": getattr(value, "lpar", ()), "rpar": getattr(value, "rpar", ())}
        if not isinstance(value, cst.Call | cst.Attribute | cst.Name):
            around = {"lpar": (), "rpar": ()}
        else:
            value = value.with_changes(lpar=[], rpar=[])
        func = made.func.with_changes(value=value, dot=dot.with_changes(whitespace_before=space))
        value = made.with_changes(func=func, **around)
    return value


def _removed(now: cst.Call) -> cst.BaseExpression:
    """What the call was made on, with the comments that stood in its link."""
    assert isinstance(now.func, cst.Attribute)
    return now.func.value.with_changes(lpar=now.lpar, rpar=now.rpar)
