"""Run several training steps for each call from Python.

Legal because Keras puts the same step into a loop inside one ``tf.function``: the same ops on the
same batches in the same order. On many models the result is bit for bit the same; on some,
TensorFlow selects other kernels inside a loop, and the last bits differ: then Uncork accepts it as
``rounding`` or not at all, as the proof decides. Callbacks that act on every batch would be called
once in N steps, so they forbid it. For a dataset of unknown length Keras counts one more optimizer
iteration at the end of an epoch when it runs step by step (the step function still runs when the
iterator ends), and none in a loop; so the length must be known. Keras runs whole executions: with
``steps_per_epoch`` and more data, 10 steps in groups of 3 would become 12. There N must divide the
steps of an epoch, and also ``validation_steps``: a validation runs in executions of N steps, too.
"""

from __future__ import annotations

import math
from typing import Final, final

from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.workload import Workload
from uncork.core.edits.step import StepsPerExecution
from uncork.optimizations.base.preconditions import batch_callbacks_refusal, step_edit_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

# Seconds. Progress, Ctrl-C and time limits wait for the end of an execution.
_MAX_EXECUTION_S: Final = 0.5
_MAX_STEPS: Final = 64


def _refusal(context: Context) -> str:
    workload = context.workload
    if workload.steps_per_execution != 1:
        return f"the script sets steps_per_execution={workload.steps_per_execution} already"
    if workload.batch_callbacks:
        return batch_callbacks_refusal(context)
    if workload.is_fit_in_loop or workload.steps_per_epoch == 1:
        few = "each call of fit runs a few steps only" if workload.is_fit_in_loop else ""
        return few or "an epoch has one step only"
    if workload.steps_per_epoch is None:
        return (
            "the length of the dataset is unknown, so Keras would count optimizer iterations "
            "differently at the end of an epoch"
        )
    if workload.model is not None and workload.data_kind in ("generator", "pydataset"):
        return f"a {workload.data_kind} passes batches from Python anyway"
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
        """Group as many steps as hide the time between them, in up to half a second."""
        workload = context.workload
        steps = min(
            _MAX_STEPS,
            int(_MAX_EXECUTION_S / max(context.diagnosis.step_s, 1e-6)),
            workload.steps_per_epoch or _MAX_STEPS,
        )
        if steps < 2:
            return Skipped(reason="a single step takes so long that grouping saves nothing")
        fixed = _fixed_steps(workload)
        if fixed:
            steps = _largest_divisor(math.gcd(*fixed.values()), steps)
        if steps < 2:
            arguments = " and ".join(f"{name}={number}" for name, number in fixed.items())
            return Skipped(
                reason=f"{arguments} cannot be divided into equal executions, "
                "and Keras would run more steps"
            )
        return Proposal(
            edits=(StepsPerExecution(steps=steps),),
            predicted=_predicted(context.diagnosis, steps),
            at=workload.at,
            rationale=f"Python runs once in {steps} steps",
            source_edit=f"model.compile(..., steps_per_execution={steps})",
        )


def _fixed_steps(workload: Workload) -> dict[str, int]:
    """Numbers of steps that Keras would exceed rather than shorten an execution."""
    fixed = {"validation_steps": workload.validation_steps}
    if workload.has_explicit_steps:
        fixed["steps_per_epoch"] = workload.steps_per_epoch
    return {name: number for name, number in fixed.items() if number}


def _largest_divisor(number: int, max_divisor: int) -> int:
    return next((d for d in range(max_divisor, 1, -1) if number % d == 0), 1)


def _predicted(diagnosis: WorkloadDiagnosis, steps: int) -> float:
    """Without most of the time between steps, but never faster than the input supplies."""
    share = diagnosis.breakdown.get("host", 0.0)
    host_free_s = diagnosis.step_s * (1 - share * (1 - 1 / steps))
    supply = diagnosis.ceilings.get("supply", 0.0)
    batch = diagnosis.measurement.samples_per_s * diagnosis.step_s
    min_step_s = max(host_free_s, batch / supply if supply else 0.0)
    return max(1.0, diagnosis.step_s / min_step_s) if min_step_s else 1.0
