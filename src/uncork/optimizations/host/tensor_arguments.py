"""Pass Python numbers that change as tensors.

A ``tf.function`` takes a Python number for a part of its code and is traced anew for each: a weight
that is warmed up, the number of the step or of the epoch. Legal because the function is the user's
own, traced from the same Python code, with a placeholder where the number stood. Python code that
needs the number itself (an index, a ``range``, a key) cannot be traced so, and goes on as written;
a branch becomes a branch of the graph. What Python reckons with the number in double precision the
graph does in its own: then the last bits differ, and it is kept as ``rounding`` or not at all.
"""

from __future__ import annotations

from typing import final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.step import TensorArguments
from uncork.optimizations.base.preconditions import function_edit_refusal
from uncork.optimizations.base.proposal import Optimization, Proposal, Skipped


@final
class TensorArgumentsOptimization(Optimization):
    """Convert the numbers at each call."""

    name = "tensor_arguments"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """All numbers that were seen to change, where tracing anew was found to be what brakes."""
        work = diagnosis.workload
        if work.kind != "custom_loop":
            return Skipped(reason="Keras calls its step on tensors alone")
        found = next((f for f in diagnosis.findings if f.cause == "retracing"), None)
        if found is None:
            return Skipped(reason="no time is lost to tracing")
        forbidden = function_edit_refusal(diagnosis)
        if forbidden:
            return forbidden
        if not work.number_arguments:
            return Skipped(reason="no number among the step's arguments was seen to change")
        names = ", ".join(work.number_arguments)
        return Proposal(
            edits=(
                TensorArguments(
                    code_digest=work.step_code_digest, argument_names=work.number_arguments
                ),
            ),
            predicted=found.upper_bound,
            at=work.step_setup_at or work.step_call_at or work.at,
            rationale=f"one trace serves all values of {names}",
            source_edit="\n".join(
                f"{name} = tf.constant({name})" for name in work.number_arguments
            ),
        )
