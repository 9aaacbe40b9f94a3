"""Make only what is taken: parts of an element that a map further up ignores.

A loader that serves several trainings gives pictures, masks and boxes; the map behind it picks what
this training needs. TensorFlow runs the whole function of a map, whatever is done with its parts.

Legal where what is left out draws no random numbers, keeps no state and runs no Python: all else is
made by the same ops from the same tensors, and nobody looks at the rest.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.stage_cost import unused_outputs_cpu_s
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import DropUnused
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)

_SOURCE: Final = """\
def load(...):
    ...
    return image, label  # only what is used further up"""


@final
class DropUnusedOptimization(Optimization):
    """Leave out of the maps what a later one ignores."""

    name = "drop_unused"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The map that ignores what costs most."""
        missing = pipeline_refusal(diagnosis)
        if missing:
            return missing
        picking = [stage for stage in diagnosis.stages if stage.unused_output_maps]
        if not picking:
            return Skipped(reason="no map ignores what another one made for it")
        costs = attribute_costs(diagnosis, machine.cpus)
        best = max(
            picking,
            key=lambda s: predict_gain(costs, costs.without_unused_outputs(s.unused_output_maps)),
        )
        predicted = predict_gain(costs, costs.without_unused_outputs(best.unused_output_maps))
        if predicted < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(predicted)
        maker = max(
            (diagnosis.stages[i] for i in best.unused_output_maps), key=unused_outputs_cpu_s
        )
        share = unused_outputs_cpu_s(maker) / (maker.cpu_s_per_step or 1.0)
        return Proposal(
            edits=(
                DropUnused(stage=best.index, expected_digest=diagnosis.workload.pipeline_digest),
            ),
            predicted=predicted,
            at=maker.at,
            rationale=(
                f"{share:.0%} of {maker.name or 'a map'} is for what {best.name or 'the next'} "
                "ignores, and what would fail in that part does not"
            ),
            source_edit=_SOURCE,
        )
