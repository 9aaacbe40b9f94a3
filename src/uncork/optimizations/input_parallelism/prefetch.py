"""Prepare the next batches while the device works on this one.

Legal because a buffer between producer and consumer changes neither elements nor order. Today's
tf.data injects one by itself (the ``inject_prefetch`` rewrite), unless the pipeline's options turn
its rewrites off: so this mostly finds nothing to do, and says so.
"""

from __future__ import annotations

from typing import final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import overlapped_step_s
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import Prefetch
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)


@final
class PrefetchOptimization(Optimization):
    """End the pipeline with ``prefetch(AUTOTUNE)``."""

    name = "prefetch"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """A prefetch where the pipeline does not end in one."""
        missing = pipeline_refusal(diagnosis)
        if missing:
            return missing
        behind = [s for s in reversed(diagnosis.stages) if s.kind != "options"]
        if behind and behind[0].kind == "prefetch":
            return Skipped(reason="the pipeline ends in a prefetch already")
        if diagnosis.workload.has_default_rewrites:
            return Skipped(reason="TensorFlow injects a prefetch by itself")
        # Without overlap a step lasts as long as its input and its training together.
        overlapped = overlapped_step_s(diagnosis, machine.cpus)
        predicted = max(1.0, diagnosis.step_s / overlapped) if overlapped else 1.0
        if predicted < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(predicted)
        return Proposal(
            edits=(Prefetch(expected_digest=diagnosis.workload.pipeline_digest),),
            predicted=predicted,
            at=behind[0].at if behind else None,
            rationale="input and training overlap",
            source_edit="dataset.prefetch(tf.data.AUTOTUNE)",
        )
