"""``.prefetch(tf.data.AUTOTUNE)`` behind the dataset where the training reads it."""

from __future__ import annotations

from uncork.core.pipeline_edit import Prefetch
from uncork.core.plan import Plan
from uncork.source.calls import linked
from uncork.source.changes import END, Change, Changes
from uncork.source.training_call import data_of
from uncork.source.tree import Source


def prefetch(source: Source, plan: Plan, edit: Prefetch) -> Changes:
    """One more stage at the end, for this training alone.

    Raises:
        EditRefused: It is not plain what the training reads.
    """
    tf = source.imported("tensorflow")
    data, _ = data_of(source, plan)
    return [Change(data, lambda now: linked(now, "prefetch", f"{tf}.data.AUTOTUNE"), END)]
