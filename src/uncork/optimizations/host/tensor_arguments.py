"""Pass Python numbers that change as tensors.

A ``tf.function`` treats a Python number as part of its code and is traced again for each value: a
weight that warms up, the number of the step or of the epoch. Legal because TensorFlow traces the
user's own function from the same Python code, with a placeholder for the number. Python code that
needs the number itself (an index, a ``range``, a key) cannot be traced this way, and runs as
before; a branch becomes a branch of the graph. Python computes with the number in double precision,
the graph in its own precision: then the last bits differ, and Uncork accepts it as ``rounding`` or
not at all.
"""

from __future__ import annotations

from typing import final

from uncork.core.edits.step import TensorArguments
from uncork.optimizations.base.preconditions import function_edit_refusal, no_retracing_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped


def _refusal(context: Context) -> str:
    return "" if context.is_loop else "Keras passes only tensors to its step"


@final
class TensorArgumentsOptimization(Optimization):
    """Convert the numbers at each call."""

    name = "tensor_arguments"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (_refusal, no_retracing_refusal, function_edit_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select all numbers that change, where retracing is the bottleneck."""
        work = context.workload
        retracing = next(f for f in context.diagnosis.findings if f.cause == "retracing")
        if not work.number_arguments:
            return Skipped(reason="no number among the arguments of the step changes")
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
