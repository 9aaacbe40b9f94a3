"""``@tf.function(reduce_retracing=True)``: dimensions in which two calls differ are left open."""

from __future__ import annotations

from uncork.core.plan import Plan
from uncork.core.step_edit import ReduceRetracing
from uncork.source.changes import Changes
from uncork.source.decorator import decorated
from uncork.source.tree import Source


def reduce_retracing(source: Source, plan: Plan, edit: ReduceRetracing) -> Changes:
    """The keyword of the decorator.

    Raises:
        EditRefused: There is no one function that it could be given to.
    """
    return [decorated(source, plan, "reduce_retracing", "True", unset=("False", "None"))]
