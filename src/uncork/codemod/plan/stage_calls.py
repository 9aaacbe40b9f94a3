"""``prefetch(tf.data.AUTOTUNE)`` instead of a number of batches that nobody takes.

``map(..., num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)``: several at once, in order.

Only where the line makes a stage of this training alone: a helper that several datasets go through
would have them all run in parallel, and the plan has looked at one of them.

``.shuffle(n).map(f)`` instead of ``.map(f).shuffle(n)``, where the two stand in one chain.

The call that made a stage of the input pipeline.
"""

from __future__ import annotations

from typing import Final

import libcst as cst

from uncork.codemod.syntax.call_syntax import check_keyword, with_keyword
from uncork.codemod.syntax.changes import ORDER_AFTER, Change, Changes
from uncork.codemod.syntax.script_tree import ScriptTree, method_name, receiver
from uncork.core.base.errors import EditRefused
from uncork.core.documents.plan import Plan
from uncork.core.edits.pipeline import LessAhead, ParallelMap, ShuffleFirst
from uncork.core.evidence.stage import Stage

# Neither what a training gives nor one batch is the data that it was made of.
_NO_DATA: Final = ("fit", "next")


def find_stage_call(source: ScriptTree, plan: Plan, stage: Stage, name: str) -> cst.Call:
    """The one call that made it, and nothing else.

    Args:
        source: The script.
        plan: It knows all stages.
        stage: One of them, with its line.
        name: Of the method.

    Raises:
        EditRefused: It is in another file, not the only one on its line, or may make other stages,
            too; or there are stages of that line which it did not make.
    """
    call = source.call_at(stage.at, name, stage.name)
    made = [s for s in plan.before.stages if (s.kind, s.at) == (stage.kind, stage.at)]
    written = source.calls_on_line(source.line_of(stage.at, name), name)
    if len(made) != len(written):
        raise EditRefused(
            f"{len(made)} stages of kind {stage.kind} come from line {source.line(call)}, which "
            f"has {len(written)} calls of {name}: a library creates some of them, or a call spans "
            "several lines"
        )
    if not source.runs_once(call):
        raise EditRefused(
            f"the {name} on line {source.line(call)} may belong to other datasets, too (it is in a "
            "loop, or in a function with several callers)"
        )
    return call


def find_shared_dataset(source: ScriptTree, call: cst.Call) -> str:
    """The name of a dataset that a call is part of, where more than one thing is made of it."""
    node: cst.CSTNode = call
    known: set[str] = set()
    while True:
        name = _given_to(source, node)
        if not name or name in known:
            return ""
        known.add(name)
        # One that is made of itself, a stage at a time, goes on under its name.
        used = [use for use in source.uses(name) if _given_to(source, use) != name]
        if len(used) > 1:
            return name
        if not used:
            return ""
        node = used[0]


def _given_to(source: ScriptTree, node: cst.CSTNode) -> str:
    """The name that the statement gives to what it makes, which a node is a part of."""
    for each in source.ancestors(node):
        if isinstance(each, cst.Call) and (method_name(each) or source.code(each.func)) in _NO_DATA:
            return ""
        if isinstance(each, cst.Assign):
            names = [t.target.value for t in each.targets if isinstance(t.target, cst.Name)]
            return names[0] if names else ""
    return ""


def write_less_ahead(source: ScriptTree, plan: Plan, edit: LessAhead, stage: Stage) -> Changes:
    """Its one argument; of a map the plan takes as many calls as the machine has cores.

    Raises:
        EditRefused: It is no prefetch, or its place is not plain.
    """
    del edit
    if stage.kind != "prefetch":
        raise EditRefused("the best number of parallel calls of a map depends on the machine")
    call = find_stage_call(source, plan, stage, "prefetch")
    if len(call.args) != 1 or call.args[0].star:
        raise EditRefused(
            f"the prefetch on line {source.line(call)} does not have exactly one argument"
        )
    auto = cst.parse_expression(f"{source.module_alias('tensorflow')}.data.AUTOTUNE")
    return [Change(call.args[0].value, lambda _: auto)]


_CALLS: Final = "num_parallel_calls"


def write_parallel_map(source: ScriptTree, plan: Plan, edit: ParallelMap, stage: Stage) -> Changes:
    """The two keywords of ``map``.

    Raises:
        EditRefused: There is no one call that they could be given to.
    """
    del edit
    tf = source.module_alias("tensorflow")
    call = find_stage_call(source, plan, stage, "map")
    shared = find_shared_dataset(source, call)
    if shared and stage.is_random:
        raise EditRefused(
            f"not only the training reads '{shared}': other readers would get other random "
            "numbers, too"
        )
    check_keyword(call, _CALLS, ("None",))
    check_keyword(call, "deterministic", ("None", "True"))
    if len([arg for arg in call.args if arg.keyword is None]) > 1:
        raise EditRefused(f"the map on line {source.line(call)} gets {_CALLS} by position")
    return [
        Change(call, lambda now: with_keyword(now, _CALLS, f"{tf}.data.AUTOTUNE")),
        Change(call, lambda now: with_keyword(now, "deterministic", "True")),
    ]


def write_shuffle_first(
    source: ScriptTree, plan: Plan, edit: ShuffleFirst, stage: Stage
) -> Changes:
    """A shuffle and the one map below it change places.

    Raises:
        EditRefused: More than that would have to move.
    """
    del edit
    call = find_stage_call(source, plan, stage, "shuffle")
    maps = stage.shuffle_buffer.movable_maps if stage.shuffle_buffer else ()
    below = receiver(call)
    if len(maps) != 1 or not (isinstance(below, cst.Call) and method_name(below) == "map"):
        raise EditRefused(
            f"the shuffle on line {source.line(call)} does not directly follow the map that it has "
            "to change places with"
        )
    assert isinstance(call.func, cst.Attribute)
    if "#" in source.code(call.func.dot):
        raise EditRefused(f"the shuffle on line {source.line(call)} has a comment above it")
    above = plan.before.stages[stage.index + 1 : stage.index + 2]
    if above and above[0].kind == "repeat":
        raise EditRefused("TensorFlow combines the shuffle and the repeat after it into one stage")
    return [Change(call, _swapped, ORDER_AFTER)]


def _swapped(shuffle: cst.Call) -> cst.Call:
    """Names and arguments change places; dots and line breaks stay where they are."""
    assert isinstance(shuffle.func, cst.Attribute)
    below = shuffle.func.value
    assert isinstance(below, cst.Call)
    assert isinstance(below.func, cst.Attribute)
    fields = ("args", "whitespace_before_args", "whitespace_after_func")
    lower = below.with_changes(
        func=below.func.with_changes(attr=shuffle.func.attr),
        **{name: getattr(shuffle, name) for name in fields},
    )
    func = shuffle.func.with_changes(attr=below.func.attr, value=lower)
    return shuffle.with_changes(func=func, **{name: getattr(below, name) for name in fields})
