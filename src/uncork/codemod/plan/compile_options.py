"""``compile(..., steps_per_execution=N)``: the very setting that the plan changes.

Not only ``fit`` goes by it: ``evaluate`` and ``predict`` of the same model do, too, and so does
what is loaded from a file of it, with the same results in fewer calls, which is told. Not where
they are given a number of steps that is no number of executions: Keras would read beyond it.
"""

from __future__ import annotations

from typing import Final

import libcst as cst

from uncork.codemod.plan.training_call import add_compile_setting
from uncork.codemod.syntax.changes import Changes
from uncork.codemod.syntax.script_tree import ScriptTree, find_argument
from uncork.core.base.errors import EditRefused
from uncork.core.documents.plan import Plan
from uncork.core.edits.step import StepsPerExecution

MODEL_SETTING_NOTE: Final = (
    "in the script it would also change evaluate and predict, and models loaded from a file; the "
    "plan changes only fit"
)
# Methods of a model that are given steps, and how many arguments stand before these.
_GIVEN_STEPS: Final = {"evaluate": 5, "predict": 3}


def write_steps_per_execution(source: ScriptTree, plan: Plan, edit: StepsPerExecution) -> Changes:
    """The keyword of ``compile``.

    Raises:
        EditRefused: There is no one call that it could be given to, or another one would then read
            more than it is told to.
    """
    for name, before in _GIVEN_STEPS.items():
        for call in source.calls(name):
            if not _reads_whole(source, call, before, edit.steps):
                raise EditRefused(
                    f"the {name} on line {source.line(call)} may limit the number of steps, and "
                    f"would read {edit.steps} at a time, past the limit"
                )
    steps = str(edit.steps)
    return [
        add_compile_setting(source, plan, "steps_per_execution", steps, replaceable_values=("1",))
    ]


def _reads_whole(source: ScriptTree, call: cst.Call, before: int, steps: int) -> bool:
    """It reads all there is, or a number of steps that is one of executions."""
    if any(arg.star for arg in call.args):
        return False
    places = [arg for arg in call.args if arg.keyword is None]
    given = find_argument(call, "steps") or next(iter(places[before:]), None)
    if given is None or source.code(given.value) == "None":
        return True
    return isinstance(given.value, cst.Integer) and given.value.evaluated_value % steps == 0
