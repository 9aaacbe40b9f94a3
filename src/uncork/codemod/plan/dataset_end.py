"""``.with_options(options)`` behind the dataset where the training reads it.

``.prefetch(tf.data.AUTOTUNE)`` behind the dataset where the training reads it.
"""

from __future__ import annotations

from uncork.codemod.plan.training_call import data_of
from uncork.codemod.syntax.call_syntax import linked
from uncork.codemod.syntax.changes import END, Change, Changes, Insertion
from uncork.codemod.syntax.script_tree import Source
from uncork.core.base.errors import EditRefused
from uncork.core.documents.plan import Plan
from uncork.core.edits.pipeline import AutotuneOff, Prefetch

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


def prefetch(source: Source, plan: Plan, edit: Prefetch) -> Changes:
    """One more stage at the end, for this training alone.

    Raises:
        EditRefused: It is not plain what the training reads.
    """
    tf = source.imported("tensorflow")
    data, _ = data_of(source, plan)
    return [Change(data, lambda now: linked(now, "prefetch", f"{tf}.data.AUTOTUNE"), END)]
