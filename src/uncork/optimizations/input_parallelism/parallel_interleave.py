"""Read the inputs of a serial interleave in threads of their own.

Legal as ``exact``: a deterministic parallel interleave gives the elements of its inputs in the very
order in which the serial one does, and these inputs draw no random numbers and keep no state that
threads could share.
"""

from __future__ import annotations

from typing import final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of
from uncork.core.costmodel.step_cost import gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import ParallelInterleave
from uncork.optimizations.base.preconditions import no_pipeline
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)


@final
class ParallelizeInterleave(Optimization):
    """Give a serial interleave ``num_parallel_calls=AUTOTUNE``."""

    name = "parallel_interleave"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The serial interleave that is predicted to win most."""
        missing = no_pipeline(diagnosis)
        if missing:
            return missing
        serial = [s.index for s in diagnosis.stages if s.readers is not None and s.of_one is None]
        if not serial:
            return Skipped(reason="no serial interleave of several inputs")
        costs = costs_of(diagnosis, machine.cpus)
        predicted, best = max((gain(costs, costs.parallel(i)), i) for i in serial)
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        return Proposal(
            edits=(ParallelInterleave(stage=best, expects=diagnosis.workload.pipeline),),
            predicted=predicted,
            at=next(s.at for s in diagnosis.stages if s.index == best),
            why="the inputs of the interleave are read side by side",
            source_edit=(
                "dataset.interleave(function, cycle_length=N, num_parallel_calls=tf.data.AUTOTUNE, "
                "deterministic=True)"
            ),
        )
