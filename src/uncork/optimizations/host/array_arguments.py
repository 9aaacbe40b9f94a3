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
from uncork.optimizations.base.preconditions import no_function_edit
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)


@final
class CopyWhatChanged(Optimization):
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
        forbidden = no_function_edit(diagnosis)
        if forbidden:
            return forbidden
        if copying.same is None or not copying.same.names:
            return Skipped(reason="the arrays are parts of arguments, not arguments")
        same = copying.same
        after_s = max(diagnosis.step_s - same.copy_s, 0.0) + same.compare_s
        predicted = diagnosis.step_s / after_s
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        names = same.names
        return Proposal(
            edits=(ArrayArguments(code=work.step_code, names=names),),
            predicted=predicted,
            at=copying.at or work.called_at or work.at,
            why=f"{(copying.bytes_per_element or 0) / 1e6:,.0f} MB are copied into tensors at each "
            "call, and are the same each time",
            source_edit="\n".join(f"{name} = tf.constant({name})" for name in names)
            + "  # once, before the loop",
        )
