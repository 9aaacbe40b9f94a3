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

from uncork.core.edits.step import TensorArguments
from uncork.optimizations.base.preconditions import function_edit_refusal, no_retracing_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped


def _refusal(context: Context) -> str:
    return "" if context.is_loop else "Keras calls its step on tensors alone"


@final
class TensorArgumentsOptimization(Optimization):
    """Convert the numbers at each call."""

    name = "tensor_arguments"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (_refusal, no_retracing_refusal, function_edit_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """All numbers that were seen to change, where tracing anew was found to be what brakes."""
        work = context.workload
        retracing = next(f for f in context.diagnosis.findings if f.cause == "retracing")
        if not work.number_arguments:
            return Skipped(reason="no number among the step's arguments was seen to change")
        names = ", ".join(work.number_arguments)
        return Proposal(
            edits=(
                TensorArguments(
                    code_digest=work.step_code_digest, argument_names=work.number_arguments
                ),
            ),
            predicted=retracing.upper_bound,
            at=work.step_setup_at or work.step_call_at or work.at,
            rationale=f"one trace serves all values of {names}",
            source_edit="\n".join(
                f"{name} = tf.constant({name})" for name in work.number_arguments
            ),
        )
