"""Prepare ahead what will be taken, and no more.

A prefetch of hundreds of batches, or a map with hundreds of calls at once, helps nobody who takes
one at a time; where each pass is left before the data ends, it makes them in vain, on the cores
that the training needs.

Legal because how far a buffer reaches, and how many calls run at once, changes neither the elements
nor their order.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel import costs_of, gain, thrown_away_s
from uncork.core.diagnosis import WorkloadDiagnosis
from uncork.core.edit import LessAhead
from uncork.core.machine import Machine
from uncork.core.plan import Policy
from uncork.road.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    no_pipeline,
    not_worth,
)

_SOURCE: Final = """\
dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)
       .prefetch(tf.data.AUTOTUNE)"""


@final
class PrepareLessAhead(Optimization):
    """Shorten the buffer whose leavings cost most."""

    name = "less_ahead"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The prefetch or parallel map that makes most in vain."""
        missing = no_pipeline(diagnosis)
        if missing:
            return missing
        told = [s for s in diagnosis.stages if s.ahead]
        if not told:
            return Skipped(reason="nothing was told how much to prepare ahead")
        best = max(told, key=lambda s: thrown_away_s(diagnosis, s))
        wasted_s = thrown_away_s(diagnosis, best)
        if not wasted_s:
            return Skipped(reason="what is prepared ahead is taken")
        costs = costs_of(diagnosis, machine.cpus)
        predicted = gain(costs, costs.sparing(wasted_s))
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        return Proposal(
            edits=(LessAhead(stage=best.index, expects=diagnosis.workload.pipeline),),
            predicted=predicted,
            at=best.at,
            why=f"of up to {best.ahead:,} elements prepared ahead most are never taken",
            source_edit=_SOURCE,
        )
