"""Trace the step of a loop once for all shapes that it is called with.

Legal because the function is the user's own, traced from the same Python code, with those
dimensions left open in which its calls differ. A kernel may be another one where a shape is not
known; then the last bits differ, and it is kept as ``rounding`` or not at all. A function whose
Python code needs to know the shape cannot be traced so, and goes on as written.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.step import ReduceRetracing
from uncork.optimizations.base.preconditions import no_retracing_refusal, strategy_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

_SOURCE: Final = "@tf.function(reduce_retracing=True)\ndef train_step(...):"


def _loop_refusal(context: Context) -> str:
    return "" if context.is_loop else "Keras leaves shapes open that differ from batch to batch"


def _step_refusal(context: Context) -> str:
    if context.workload.is_eager_step or not context.workload.step_code_digest:
        return "the loop calls no compiled function for a batch, or several"
    return ""


@final
class ReduceRetracingOptimization(Optimization):
    """Set ``reduce_retracing=True``."""

    name = "reduce_retracing"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (_loop_refusal, no_retracing_refusal, _step_refusal, strategy_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Open shapes, where tracing anew was found to be what brakes."""
        work = context.workload
        retracing = next(f for f in context.diagnosis.findings if f.cause == "retracing")
        return Proposal(
            edits=(ReduceRetracing(code_digest=work.step_code_digest),),
            predicted=retracing.upper_bound,
            at=work.step_setup_at or work.step_call_at or work.at,
            rationale="one trace serves all shapes",
            source_edit=_SOURCE,
        )
