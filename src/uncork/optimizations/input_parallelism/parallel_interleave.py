"""Read the inputs of a serial interleave in threads of their own.

Legal as ``exact``: a deterministic parallel interleave gives the elements of its inputs in the very
order in which the serial one does, and these inputs draw no random numbers and keep no state that
threads could share.
"""

from __future__ import annotations

from typing import final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import ParallelInterleave
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)


@final
class ParallelInterleaveOptimization(Optimization):
    """Give a serial interleave ``num_parallel_calls=AUTOTUNE``."""

    name = "parallel_interleave"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The serial interleave that is predicted to win most."""
        missing = pipeline_refusal(diagnosis)
        if missing:
            return missing
        serial = [
            s.index
            for s in diagnosis.stages
            if s.max_readers is not None and s.max_input_elements is None
        ]
        if not serial:
            return Skipped(reason="no serial interleave of several inputs")
        costs = attribute_costs(diagnosis, machine.cpus)
        predicted, best = max(
            (predict_gain(costs, costs.with_parallel_stage(i)), i) for i in serial
        )
        if predicted < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(predicted)
        return Proposal(
            edits=(
                ParallelInterleave(stage=best, expected_digest=diagnosis.workload.pipeline_digest),
            ),
            predicted=predicted,
            at=next(s.at for s in diagnosis.stages if s.index == best),
            rationale="the inputs of the interleave are read side by side",
            source_edit=(
                "dataset.interleave(function, cycle_length=N, num_parallel_calls=tf.data.AUTOTUNE, "
                "deterministic=True)"
            ),
        )
