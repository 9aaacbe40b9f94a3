"""The call that made a stage of the input pipeline."""

from __future__ import annotations

from typing import Final

import libcst as cst

from uncork.core.errors import EditRefused
from uncork.core.plan import Plan
from uncork.core.stage import Stage
from uncork.source.tree import Source, method

# Neither what a training gives nor one batch is the data that it was made of.
_NO_DATA: Final = ("fit", "next")


def stage_call(source: Source, plan: Plan, stage: Stage, name: str) -> cst.Call:
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
    written = source.calls_on(source.line_of(stage.at, name), name)
    if len(made) != len(written):
        raise EditRefused(
            f"{len(made)} stages of kind {stage.kind} come from line {source.line(call)}, and "
            f"{len(written)} calls of {name} stand there: a library makes some of them, or one "
            "call goes over several lines"
        )
    if not source.runs_once(call):
        raise EditRefused(
            f"the {name} on line {source.line(call)} may serve other datasets, too (it stands in a "
            "loop, or in a function that is called from several places)"
        )
    return call


def shared_by(source: Source, call: cst.Call) -> str:
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


def _given_to(source: Source, node: cst.CSTNode) -> str:
    """The name that the statement gives to what it makes, which a node is a part of."""
    for each in source.around(node):
        if isinstance(each, cst.Call) and (method(each) or source.code(each.func)) in _NO_DATA:
            return ""
        if isinstance(each, cst.Assign):
            names = [t.target.value for t in each.targets if isinstance(t.target, cst.Name)]
            return names[0] if names else ""
    return ""
