"""``.shuffle(n).map(f)`` instead of ``.map(f).shuffle(n)``, where the two stand in one chain."""

from __future__ import annotations

import libcst as cst

from uncork.core.errors import EditRefused
from uncork.core.pipeline_edit import ShuffleFirst
from uncork.core.plan import Plan
from uncork.core.stage import Stage
from uncork.source.changes import BEHIND, Change, Changes
from uncork.source.stage_call import stage_call
from uncork.source.tree import Source, method, receiver


def shuffle_first(source: Source, plan: Plan, edit: ShuffleFirst, stage: Stage) -> Changes:
    """A shuffle and the one map below it change places.

    Raises:
        EditRefused: More than that would have to move.
    """
    del edit
    call = stage_call(source, plan, stage, "shuffle")
    maps = stage.buffer.maps if stage.buffer else ()
    below = receiver(call)
    if len(maps) != 1 or not (isinstance(below, cst.Call) and method(below) == "map"):
        raise EditRefused(
            f"the shuffle on line {source.line(call)} does not stand directly behind the one map "
            "that it has to change places with"
        )
    assert isinstance(call.func, cst.Attribute)
    if "#" in source.code(call.func.dot):
        raise EditRefused(f"a comment stands above the shuffle on line {source.line(call)}")
    above = plan.before.stages[stage.index + 1 : stage.index + 2]
    if above and above[0].kind == "repeat":
        raise EditRefused("TensorFlow makes one stage of the shuffle and the repeat behind it")
    return [Change(call, _swapped, BEHIND)]


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
