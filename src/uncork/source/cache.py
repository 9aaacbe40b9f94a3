"""``.cache()`` behind the stage whose elements are kept.

Where the plan keeps them below a shuffle or a repeat that the script has first, maps and shuffle
would have to change places: that is left to the plan. So is a map that is to be cut in two.
"""

from __future__ import annotations

from uncork.core.errors import EditRefused
from uncork.core.pipeline_edit import Cache
from uncork.core.plan import Plan
from uncork.core.stage import Stage
from uncork.source.calls import linked
from uncork.source.changes import BEHIND, Change, Changes
from uncork.source.stage_call import stage_call
from uncork.source.tree import Source


def cache(source: Source, plan: Plan, edit: Cache, stage: Stage) -> Changes:
    """One more stage.

    Raises:
        EditRefused: It would stand elsewhere, or its place is not plain.
    """
    del edit
    below = stage.cache_point.below if stage.cache_point else ()
    if below:
        raise EditRefused(
            f"the elements are to be kept below the {' and the '.join(below)}: maps that stand "
            "above it would have to change places with it"
        )
    call = stage_call(source, plan, stage, stage.kind)
    return [Change(call, lambda now: linked(now, "cache"), BEHIND)]
