"""Compute only the parts of an element that later maps use.

A loader for several trainings returns images, masks and boxes; a later map selects what this
training needs. TensorFlow runs the whole function of a map, whether its outputs are used or not.

Legal where the dropped part uses no random numbers, keeps no state and runs no Python: the same ops
compute everything else from the same tensors, and nothing reads the dropped part.
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
    return image, label  # only what later maps use"""


@final
class DropUnusedOptimization(Optimization):
    """Drop outputs of maps that a later map ignores."""

    name = "drop_unused"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the map that ignores the most expensive outputs."""
        selecting = [stage for stage in context.stages if stage.unused_output_maps]
        if not selecting:
            return Skipped(reason="no map ignores outputs of an earlier one")
        costs = context.costs
        best, predicted = best_gain(
            costs, selecting, lambda s: costs.without_unused_outputs(s.unused_output_maps)
        )
        producer = max(
            (context.stages[i] for i in best.unused_output_maps), key=unused_outputs_cpu_s
        )
        share = unused_outputs_cpu_s(producer) / (producer.cpu_s_per_step or 1.0)
        return Proposal(
            edits=(DropUnused(stage=best.index, expected_digest=context.pipeline_digest),),
            predicted=predicted,
            at=producer.at,
            rationale=(
                f"{share:.0%} of {producer.name or 'a map'} is for what {best.name or 'the next'} "
                "ignores; errors in that part no longer occur"
            ),
            source_edit=_SOURCE,
        )
