"""Trace the step of a loop once for all shapes that it is called with.

Legal because the function is the user's own, traced from the same Python code, with those
dimensions left open in which its calls differ. A kernel may be another one where a shape is not
known; then the last bits differ, and it is kept as ``rounding`` or not at all. A function whose
Python code needs to know the shape cannot be traced so, and goes on as written.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.step import ReduceRetracing
from uncork.optimizations.base.proposal import Optimization, Proposal, Skipped

_SOURCE: Final = "@tf.function(reduce_retracing=True)\ndef train_step(...):"


@final
class ReduceRetracingOptimization(Optimization):
    """Set ``reduce_retracing=True``."""

    name = "reduce_retracing"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Open shapes, where tracing anew was found to be what brakes."""
        work = diagnosis.workload
        if work.kind != "custom_loop":
            return Skipped(reason="Keras leaves shapes open that differ from batch to batch")
        found = next((f for f in diagnosis.findings if f.cause == "retracing"), None)
        if found is None:
            return Skipped(reason="no time is lost to tracing")
        if work.is_eager_step or not work.step_code_digest:
            return Skipped(reason="the loop calls no compiled function for a batch, or several")
        if work.is_distributed or work.replicas > 1:
            return Skipped(reason="not tried under a tf.distribute strategy yet")
        return Proposal(
            edits=(ReduceRetracing(code_digest=work.step_code_digest),),
            predicted=found.upper_bound,
            at=work.step_setup_at or work.step_call_at or work.at,
            rationale="one trace serves all shapes",
            source_edit=_SOURCE,
        )
