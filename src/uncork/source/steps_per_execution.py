"""``compile(..., steps_per_execution=N)``: the very setting that the plan changes.

Not only ``fit`` goes by it: ``evaluate`` and ``predict`` of the same model do, too, with the same
results in fewer calls, which is told.
"""

from __future__ import annotations

from typing import Final

from uncork.core.plan import Plan
from uncork.core.step_edit import StepsPerExecution
from uncork.source.changes import Changes
from uncork.source.training_call import compile_setting
from uncork.source.tree import Source

NOTE: Final = "evaluate and predict of the model go by it, too; under the plan fit alone does"


def steps_per_execution(source: Source, plan: Plan, edit: StepsPerExecution) -> Changes:
    """The keyword of ``compile``.

    Raises:
        EditRefused: There is no one call that it could be given to.
    """
    steps = str(edit.steps)
    return [compile_setting(source, plan, "steps_per_execution", steps, unset=("1",))]
