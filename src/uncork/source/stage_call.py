"""The call that made a stage of the input pipeline."""

from __future__ import annotations

import libcst as cst

from uncork.core.errors import EditRefused
from uncork.core.plan import Plan
from uncork.core.stage import Stage
from uncork.source.tree import Source


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
    written = [c for c in source.calls(name) if source.line(c) == source.line(call)]
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
