"""Prepare ahead what will be taken, and no more.

A prefetch of hundreds of batches, or a map with hundreds of calls at once, helps nobody who takes
one at a time; where each pass is left before the data ends, it makes them in vain, on the cores
that the training needs.

Legal because how far a buffer reaches, and how many calls run at once, changes neither the elements
nor their order.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of, thrown_away_s
from uncork.core.costmodel.step_cost import gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import LessAhead
from uncork.optimizations.base.preconditions import no_pipeline
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

_SOURCE: Final = """\
dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)
       .prefetch(tf.data.AUTOTUNE)"""


@final
class PrepareLessAhead(Optimization):
    """Shorten the buffers whose leavings cost time."""

    name = "less_ahead"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Every prefetch and parallel map that works in vain."""
        missing = no_pipeline(diagnosis)
        if missing:
            return missing
        told = [s for s in diagnosis.stages if s.ahead]
        if not told:
            return Skipped(reason="nothing was told how much to prepare ahead")
        wasteful = [s for s in told if thrown_away_s(diagnosis, s)]
        if not wasteful:
            return Skipped(reason="what is prepared ahead is taken")
        costs = costs_of(diagnosis, machine.cpus)
        predicted = gain(costs, costs.sparing(max(thrown_away_s(diagnosis, s) for s in wasteful)))
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        # All of them: a short buffer in front of a long one is filled for the long one.
        most = max(s.ahead or 0 for s in wasteful)
        expected = (diagnosis.workload.pipeline, *[""] * (len(wasteful) - 1))
        return Proposal(
            edits=tuple(
                LessAhead(stage=s.index, expects=e) for s, e in zip(wasteful, expected, strict=True)
            ),
            predicted=predicted,
            at=wasteful[-1].at,
            why=f"of up to {most:,} elements prepared ahead most are never taken",
            source_edit=_SOURCE,
        )
