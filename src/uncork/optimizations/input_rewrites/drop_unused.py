"""Make only what is taken: parts of an element that a map further up ignores.

A loader that serves several trainings gives pictures, masks and boxes; the map behind it picks what
this training needs. TensorFlow runs the whole function of a map, whatever is done with its parts.

Legal where what is left out draws no random numbers, keeps no state and runs no Python: all else is
made by the same ops from the same tensors, and nobody looks at the rest.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel.stage_cost import unused_outputs_cpu_s
from uncork.core.edits.pipeline import DropUnused
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped, best_gain

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
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """The map that ignores what costs most."""
        picking = [stage for stage in context.stages if stage.unused_output_maps]
        if not picking:
            return Skipped(reason="no map ignores what another one made for it")
        costs = context.costs
        best, predicted = best_gain(
            costs, picking, lambda s: costs.without_unused_outputs(s.unused_output_maps)
        )
        maker = max((context.stages[i] for i in best.unused_output_maps), key=unused_outputs_cpu_s)
        share = unused_outputs_cpu_s(maker) / (maker.cpu_s_per_step or 1.0)
        return Proposal(
            edits=(DropUnused(stage=best.index, expected_digest=context.pipeline_digest),),
            predicted=predicted,
            at=maker.at,
            rationale=(
                f"{share:.0%} of {maker.name or 'a map'} is for what {best.name or 'the next'} "
                "ignores, and what would fail in that part does not"
            ),
            source_edit=_SOURCE,
        )
