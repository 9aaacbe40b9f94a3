"""Copy the arrays that a loop hands to its step only where they have changed.

A ``tf.function`` makes a tensor of each NumPy array among its arguments, at every call: of a whole
table, though the step may look at a few of its rows. Legal because the tensor of the last call is
used only where the array still holds the same numbers, byte for byte; it is looked through at every
call, which takes a part of what copying takes, and on an accelerator spares sending it.
"""

from __future__ import annotations

from typing import final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.step import ArrayArguments
from uncork.optimizations.base.preconditions import function_edit_refusal
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)


@final
class ArrayArgumentsOptimization(Optimization):
    """Keep the tensors of arrays."""

    name = "array_arguments"
    stage = "host"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Where copying takes a good part of the step, and comparing a smaller one."""
        del machine, policy
        work = diagnosis.workload
        if work.kind != "custom_loop":
            return Skipped(reason="Keras calls its step on tensors alone")
        copying = next((stage for stage in diagnosis.stages if stage.kind == "convert"), None)
        if copying is None:
            return Skipped(reason="no large array is handed to the step unchanged")
        forbidden = function_edit_refusal(diagnosis)
        if forbidden:
            return forbidden
        if copying.unchanged_arrays is None or not copying.unchanged_arrays.argument_names:
            return Skipped(reason="the arrays are parts of arguments, not arguments")
        same = copying.unchanged_arrays
        after_s = max(diagnosis.step_s - same.copy_s, 0.0) + same.compare_s
        predicted = diagnosis.step_s / after_s
        if predicted < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(predicted)
        names = same.argument_names
        return Proposal(
            edits=(ArrayArguments(code_digest=work.step_code_digest, argument_names=names),),
            predicted=predicted,
            at=copying.at or work.step_call_at or work.at,
            rationale=(
                f"{(copying.bytes_per_element or 0) / 1e6:,.0f} MB are copied into tensors at "
                "each "
                "call, and are the same each time"
            ),
            source_edit="\n".join(f"{name} = tf.constant({name})" for name in names)
            + "  # once, before the loop",
        )
