"""``.with_options(options)`` behind the dataset where the training reads it."""

from __future__ import annotations

from uncork.core.errors import EditRefused
from uncork.core.pipeline_edit import AutotuneOff
from uncork.core.plan import Plan
from uncork.source.calls import linked
from uncork.source.changes import END, Change, Changes, Insertion
from uncork.source.training_call import data_of
from uncork.source.tree import Source

_NAMES = ("options", "untuned", "without_autotuner")


def autotune_off(source: Source, plan: Plan, edit: AutotuneOff) -> Changes:
    """Options above the statement, under a name that the script has not.

    Raises:
        EditRefused: It is not plain what the training reads, or all names are taken.
    """
    tf = source.imported("tensorflow")
    data, statement = data_of(source, plan)
    text = source.module.code
    free = [name for name in _NAMES if name not in text]
    if not free:
        raise EditRefused(f"the script has {' and '.join(_NAMES)} already")
    name = free[0]
    lines = (f"{name} = {tf}.data.Options()", f"{name}.autotune.enabled = False")
    return [
        Insertion(statement, lines),
        Change(data, lambda now: linked(now, "with_options", name), END),
    ]
