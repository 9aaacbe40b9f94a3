"""Run a serial map on several elements at once, its random draws included.

Legal as ``resampled`` only: elements keep their order (``deterministic=True``), but which element
gets which random draw now depends on which thread comes first. The distribution is the same; the
sequence is not reproducible. So what is exact is tried before, by ``parallelize_prefix`` and
``draw_first``, and this only where the random part itself is the brake.
"""

from __future__ import annotations

from typing import final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import ParallelMap
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)


@final
class ParallelMapOptimization(Optimization):
    """Give a serial map ``num_parallel_calls=AUTOTUNE``."""

    name = "parallel_map"
    stage = "input"
    guarantee = "resampled"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The serial map that is predicted to win most."""
        missing = pipeline_refusal(diagnosis)
        if missing:
            return missing
        # Python code would only queue for the interpreter's lock, and may not be thread-safe.
        serial = [
            s for s in diagnosis.stages if _is_serial_map(s.kind, s.parallelism, s.has_python_code)
        ]
        if not serial:
            return Skipped(reason="no serial map")
        costs = attribute_costs(diagnosis, machine.cpus)
        best = max(serial, key=lambda s: predict_gain(costs, costs.with_parallel_stage(s.index)))
        predicted = predict_gain(costs, costs.with_parallel_stage(best.index))
        if predicted < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(predicted)
        return Proposal(
            edits=(
                ParallelMap(stage=best.index, expected_digest=diagnosis.workload.pipeline_digest),
            ),
            predicted=predicted,
            at=best.at,
            rationale=f"{best.name or 'the map'} runs on several elements at once",
            source_edit="dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)",
        )


def _is_serial_map(kind: str, parallelism: int | None, python: bool) -> bool:
    return kind == "map" and parallelism == 1 and not python
