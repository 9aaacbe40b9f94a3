"""``map(..., num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)``: several at once, in order.

Only where the line makes a stage of this training alone: a helper that several datasets go through
would have them all run in parallel, and the plan has looked at one of them.
"""

from __future__ import annotations

from typing import Final

from uncork.core.errors import EditRefused
from uncork.core.pipeline_edit import ParallelMap
from uncork.core.plan import Plan
from uncork.core.stage import Stage
from uncork.source.calls import check_keyword, with_keyword
from uncork.source.changes import Change, Changes
from uncork.source.stage_call import shared_by, stage_call
from uncork.source.tree import Source

_CALLS: Final = "num_parallel_calls"


def parallel_map(source: Source, plan: Plan, edit: ParallelMap, stage: Stage) -> Changes:
    """The two keywords of ``map``.

    Raises:
        EditRefused: There is no one call that they could be given to.
    """
    del edit
    tf = source.imported("tensorflow")
    call = stage_call(source, plan, stage, "map")
    shared = shared_by(source, call)
    if shared and stage.random:
        raise EditRefused(f"more than the training reads '{shared}', and would draw otherwise, too")
    check_keyword(call, _CALLS, ("None",))
    check_keyword(call, "deterministic", ("None", "True"))
    if len([arg for arg in call.args if arg.keyword is None]) > 1:
        raise EditRefused(f"the map on line {source.line(call)} is given {_CALLS} by its place")
    return [
        Change(call, lambda now: with_keyword(now, _CALLS, f"{tf}.data.AUTOTUNE")),
        Change(call, lambda now: with_keyword(now, "deterministic", "True")),
    ]
