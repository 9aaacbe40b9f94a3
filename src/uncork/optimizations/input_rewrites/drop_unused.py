"""Make only what is taken: parts of an element that a map further up ignores.

A loader that serves several trainings gives pictures, masks and boxes; the map behind it picks what
this training needs. TensorFlow runs the whole function of a map, whatever is done with its parts.

Legal where what is left out draws no random numbers, keeps no state and runs no Python: all else is
made by the same ops from the same tensors, and nobody looks at the rest.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of
from uncork.core.costmodel.stage_cost import spared_s
from uncork.core.costmodel.step_cost import gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import DropUnused
from uncork.optimizations.base.preconditions import no_pipeline
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

_SOURCE: Final = """\
def load(...):
    ...
    return image, label  # only what is used further up"""


@final
class MakeWhatIsTaken(Optimization):
    """Leave out of the maps what a later one ignores."""

    name = "drop_unused"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The map that ignores what costs most."""
        missing = no_pipeline(diagnosis)
        if missing:
            return missing
        picking = [stage for stage in diagnosis.stages if stage.ignores]
        if not picking:
            return Skipped(reason="no map ignores what another one made for it")
        costs = costs_of(diagnosis, machine.cpus)
        best = max(picking, key=lambda s: gain(costs, costs.needed(s.ignores)))
        predicted = gain(costs, costs.needed(best.ignores))
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        maker = max((diagnosis.stages[i] for i in best.ignores), key=spared_s)
        share = spared_s(maker) / (maker.cpu_s_per_step or 1.0)
        return Proposal(
            edits=(DropUnused(stage=best.index, expects=diagnosis.workload.pipeline),),
            predicted=predicted,
            at=maker.at,
            why=f"{share:.0%} of {maker.name or 'a map'} is for what {best.name or 'the next'} "
            "ignores, and what would fail in that part does not",
            source_edit=_SOURCE,
        )
