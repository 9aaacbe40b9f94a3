"""Copy arrays that a loop passes to its step only when they have changed.

A ``tf.function`` converts each NumPy array among its arguments to a tensor at every call: a whole
table, even if the step reads a few of its rows. Legal because Uncork uses the tensor of the last
call only if the array still holds the same bytes. It compares them at every call, which takes a
fraction of the time of a copy, and on an accelerator saves the transfer.
"""

from __future__ import annotations

from typing import final

from uncork.core.edits.step import ArrayArguments
from uncork.optimizations.base.preconditions import function_edit_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped


def _refusal(context: Context) -> str:
    if not context.is_loop:
        return "Keras passes only tensors to its step"
    if not any(stage.kind == "convert" for stage in context.stages):
        return "the loop passes no large unchanged array to its step"
    return ""


@final
class ArrayArgumentsOptimization(Optimization):
    """Cache the tensors of arrays."""

    name = "array_arguments"
    stage = "host"
    guarantee = "exact"
    preconditions = (_refusal, function_edit_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it where copying takes a large share of the step, and comparing a smaller one."""
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
                f"each call copies {(copying.bytes_per_element or 0) / 1e6:,.0f} MB into tensors, "
                "and they are the same each time"
            ),
            source_edit="\n".join(f"{name} = tf.constant({name})" for name in names)
            + "  # once, before the loop",
        )
