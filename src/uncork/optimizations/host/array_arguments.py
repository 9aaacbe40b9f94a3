"""Copy the arrays that a loop hands to its step only where they have changed.

A ``tf.function`` makes a tensor of each NumPy array among its arguments, at every call: of a whole
table, though the step may look at a few of its rows. Legal because the tensor of the last call is
used only where the array still holds the same numbers, byte for byte; it is looked through at every
call, which takes a part of what copying takes, and on an accelerator spares sending it.
"""

from __future__ import annotations

from typing import final

from uncork.core.edits.step import ArrayArguments
from uncork.optimizations.base.preconditions import function_edit_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped


def _refusal(context: Context) -> str:
    if not context.is_loop:
        return "Keras calls its step on tensors alone"
    if not any(stage.kind == "convert" for stage in context.stages):
        return "no large array is handed to the step unchanged"
    return ""


@final
class ArrayArgumentsOptimization(Optimization):
    """Keep the tensors of arrays."""

    name = "array_arguments"
    stage = "host"
    guarantee = "exact"
    preconditions = (_refusal, function_edit_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Where copying takes a good part of the step, and comparing a smaller one."""
        work = context.workload
        copying = next(stage for stage in context.stages if stage.kind == "convert")
        if copying.unchanged_arrays is None or not copying.unchanged_arrays.argument_names:
            return Skipped(reason="the arrays are parts of arguments, not arguments")
        same = copying.unchanged_arrays
        after_s = max(context.diagnosis.step_s - same.copy_s, 0.0) + same.compare_s
        names = same.argument_names
        return Proposal(
            edits=(ArrayArguments(code_digest=work.step_code_digest, argument_names=names),),
            predicted=context.diagnosis.step_s / after_s,
            at=copying.at or work.step_call_at or work.at,
            rationale=(
                f"{(copying.bytes_per_element or 0) / 1e6:,.0f} MB are copied into tensors at "
                "each call, and are the same each time"
            ),
            source_edit="\n".join(f"{name} = tf.constant({name})" for name in names)
            + "  # once, before the loop",
        )
