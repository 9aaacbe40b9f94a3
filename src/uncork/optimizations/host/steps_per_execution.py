"""Run several training steps for each call from Python.

Legal because Keras puts the very same step into a loop inside one ``tf.function``: the same ops on
the same batches in the same order. That is bit for bit the same on many models; on some TensorFlow
picks other kernels inside a loop, and the last bits differ: then it is kept as ``rounding`` or not
at all, whichever the proof says. What changes is who sees each batch: callbacks that act on every
batch would be called once in N, so their presence forbids it. On a dataset of unknown length Keras
counts one more optimizer iteration at the end of an epoch when it runs step by step (the step
function still runs when the iterator ends), and none in a loop; so the length must be known. Keras
runs whole executions: where ``steps_per_epoch`` was given and the data goes on, 10 steps in groups
of 3 would become 12. There N must divide the steps of an epoch, and ``validation_steps`` likewise:
a validation runs in executions of N, too.
"""

from __future__ import annotations

import math
from typing import Final, final

from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.workload import Workload
from uncork.core.edits.step import StepsPerExecution
from uncork.optimizations.base.preconditions import batch_callbacks_refusal, step_edit_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

# Seconds one execution may last: progress, Ctrl-C and time limits are only looked at in between.
_LONGEST_EXECUTION_S: Final = 0.5
_MOST_STEPS: Final = 64


def _refusal(context: Context) -> str:
    workload = context.workload
    if workload.steps_per_execution != 1:
        return f"set to {workload.steps_per_execution} by the script already"
    if workload.batch_callbacks:
        return batch_callbacks_refusal(context)
    if workload.is_fit_in_loop or workload.steps_per_epoch == 1:
        few = "fit is called for a few steps at a time" if workload.is_fit_in_loop else ""
        return few or "an epoch has one step only: there is no second one to chain"
    if workload.steps_per_epoch is None:
        return (
            "the dataset's length is unknown: Keras would count optimizer iterations "
            "differently at the end of an epoch"
        )
    if workload.model is not None and workload.data_kind in ("generator", "pydataset"):
        return f"a {workload.data_kind} hands over batches from Python anyway"
    return ""


@final
class StepsPerExecutionOptimization(Optimization):
    """Set ``steps_per_execution``."""

    name = "steps_per_execution"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (step_edit_refusal, _refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """As many steps as make the time between them small, and not more than half a second."""
        workload = context.workload
        steps = min(
            _MOST_STEPS,
            int(_LONGEST_EXECUTION_S / max(context.diagnosis.step_s, 1e-6)),
            workload.steps_per_epoch or _MOST_STEPS,
        )
        if steps < 2:
            return Skipped(reason="a single step already takes so long that nothing is won")
        fixed = _fixed_steps(workload)
        if fixed:
            steps = _largest_divisor(math.gcd(*fixed.values()), steps)
        if steps < 2:
            arguments = " and ".join(f"{name}={number}" for name, number in fixed.items())
            return Skipped(
                reason=f"{arguments} cannot be cut into equal executions, "
                "and Keras would go beyond it"
            )
        return Proposal(
            edits=(StepsPerExecution(steps=steps),),
            predicted=_predicted(context.diagnosis, steps),
            at=workload.at,
            rationale=f"Python is entered once in {steps} steps",
            source_edit=f"model.compile(..., steps_per_execution={steps})",
        )


def _fixed_steps(workload: Workload) -> dict[str, int]:
    """Numbers of steps of which Keras would take more, rather than cut an execution short."""
    fixed = {"validation_steps": workload.validation_steps}
    if workload.has_explicit_steps:
        fixed["steps_per_epoch"] = workload.steps_per_epoch
    return {name: number for name, number in fixed.items() if number}


def _largest_divisor(number: int, most: int) -> int:
    return next((d for d in range(most, 1, -1) if number % d == 0), 1)


def _predicted(diagnosis: WorkloadDiagnosis, steps: int) -> float:
    """Without most of the time between steps; but never faster than the input supplies."""
    share = diagnosis.breakdown.get("host", 0.0)
    without_s = diagnosis.step_s * (1 - share * (1 - 1 / steps))
    supply = diagnosis.ceilings.get("supply", 0.0)
    batch = diagnosis.measurement.samples_per_s * diagnosis.step_s
    at_least_s = max(without_s, batch / supply if supply else 0.0)
    return max(1.0, diagnosis.step_s / at_least_s) if at_least_s else 1.0
