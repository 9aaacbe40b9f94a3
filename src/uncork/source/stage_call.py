"""The call that made a stage of the input pipeline."""

from __future__ import annotations

import libcst as cst

from uncork.core.errors import EditRefused
from uncork.core.stage import Stage
from uncork.source.tree import Source


def stage_call(source: Source, stage: Stage, name: str) -> cst.Call:
    """The one call that made it, and nothing else.

    Args:
        source: The script.
        stage: As the plan knows it, with its line.
        name: Of the method.

    Raises:
        EditRefused: It is in another file, not the only one on its line, or may make other stages,
            too.
    """
    call = source.call_at(stage.at, name, stage.name)
    if not source.runs_once(call):
        raise EditRefused(
            f"the {name} on line {source.line(call)} may serve other datasets, too (it stands in a "
            "loop, or in a function that is called from several places)"
        )
    return call
