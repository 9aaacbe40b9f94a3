"""Trace the step of a loop once for all shapes of its arguments.

Legal because TensorFlow traces the user's own function from the same Python code, with those
dimensions open in which its calls differ. TensorFlow may select another kernel where a shape is
unknown; then the last bits differ, and Uncork accepts it as ``rounding`` or not at all. A function
whose Python code needs the shape cannot be traced this way, and runs as before.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.step import ReduceRetracing
from uncork.optimizations.base.preconditions import no_retracing_refusal, strategy_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

_SOURCE: Final = "@tf.function(reduce_retracing=True)\ndef train_step(...):"


def _loop_refusal(context: Context) -> str:
    return "" if context.is_loop else "Keras leaves shapes open that differ between batches"


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
        """Propose open shapes where retracing is the bottleneck."""
        work = context.workload
        retracing = next(f for f in context.diagnosis.findings if f.cause == "retracing")
        return Proposal(
            edits=(ReduceRetracing(code_digest=work.step_code_digest),),
            predicted=retracing.upper_bound,
            at=work.step_setup_at or work.step_call_at or work.at,
            rationale="one trace serves all shapes",
            source_edit=_SOURCE,
        )
