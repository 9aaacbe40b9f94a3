"""``prefetch(tf.data.AUTOTUNE)`` instead of a number of batches that nobody takes."""

from __future__ import annotations

import libcst as cst

from uncork.core.errors import EditRefused
from uncork.core.pipeline_edit import LessAhead
from uncork.core.plan import Plan
from uncork.core.stage import Stage
from uncork.source.changes import Change, Changes
from uncork.source.stage_call import stage_call
from uncork.source.tree import Source


def less_ahead(source: Source, plan: Plan, edit: LessAhead, stage: Stage) -> Changes:
    """Its one argument; of a map the plan takes as many calls as the machine has cores.

    Raises:
        EditRefused: It is no prefetch, or its place is not plain.
    """
    del edit
    if stage.kind != "prefetch":
        raise EditRefused("how many calls a parallel map may make at once depends on the machine")
    call = stage_call(source, plan, stage, "prefetch")
    if len(call.args) != 1 or call.args[0].star:
        raise EditRefused(f"the prefetch on line {source.line(call)} has not one argument")
    auto = cst.parse_expression(f"{source.imported('tensorflow')}.data.AUTOTUNE")
    return [Change(call.args[0].value, lambda _: auto)]
