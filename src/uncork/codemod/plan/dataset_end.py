"""``.with_options(options)`` and ``.prefetch(AUTOTUNE)`` where the training reads a dataset."""

from __future__ import annotations

from uncork.codemod.plan.training_call import find_training_data, find_validation_data
from uncork.codemod.syntax.call_syntax import append_method_call
from uncork.codemod.syntax.changes import ORDER_END, Change, Changes, Insertion
from uncork.codemod.syntax.script_tree import ScriptTree
from uncork.core.base.errors import EditRefused
from uncork.core.documents.plan import Plan
from uncork.core.edits.pipeline import AutotuneOff, Prefetch

_NAMES = ("options", "untuned", "without_autotuner")


def write_autotune_off(
    source: ScriptTree, plan: Plan, edit: AutotuneOff, *, is_for_validation: bool = False
) -> Changes:
    """Options above the statement, under a name that the script has not.

    A training and its validation share them.

    Raises:
        EditRefused: It is not plain what the training reads, or all names are taken.
    """
    tf = source.module_alias("tensorflow")
    find_data = find_validation_data if is_for_validation else find_training_data
    data, statement = find_data(source, plan)
    text = source.module.code
    free = [name for name in _NAMES if name not in text]
    if not free:
        raise EditRefused(f"the script already has {' and '.join(_NAMES)}")
    name = free[0]
    lines = (f"{name} = {tf}.data.Options()", f"{name}.autotune.enabled = False")
    return [
        Insertion(statement, lines),
        Change(data, lambda now: append_method_call(now, "with_options", name), ORDER_END),
    ]


def write_prefetch(
    source: ScriptTree, plan: Plan, edit: Prefetch, *, is_for_validation: bool = False
) -> Changes:
    """One more stage at the end, for this training alone, or for its validation.

    Raises:
        EditRefused: It is not plain what the training reads.
    """
    tf = source.module_alias("tensorflow")
    data, _ = (find_validation_data if is_for_validation else find_training_data)(source, plan)
    return [
        Change(
            data, lambda now: append_method_call(now, "prefetch", f"{tf}.data.AUTOTUNE"), ORDER_END
        )
    ]
