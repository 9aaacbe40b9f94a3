"""Shuffle what is small, then make it large: names and bytes wait in the buffer, not pictures.

A shuffle gives nothing before its buffer is full. Behind the maps, that means decoding as many
pictures as it holds while the training waits, at the start of every epoch, and holding them all.

Legal because a shuffle draws positions, whatever stands there: a map of each element alone gives
the same before it and after it. A repeat directly above it comes along, because TensorFlow fuses
the two, and the fused one draws otherwise than the two apart.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of, unexplained_s
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import ShuffleFirst
from uncork.optimizations.base.preconditions import no_pipeline, no_room
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

_SOURCE: Final = """\
dataset.shuffle(n, ...)  # file names, indices, records
       .map(load, num_parallel_calls=tf.data.AUTOTUNE)"""


@final
class ShuffleBeforeMaps(Optimization):
    """Put a shuffle below the maps that it follows."""

    name = "shuffle_first"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The shuffle whose filling holds the training up most."""
        missing = no_pipeline(diagnosis)
        if missing:
            return missing
        candidates = [s for s in diagnosis.stages if s.buffer]
        if not candidates:
            return Skipped(reason="no shuffle follows maps that could as well follow it")
        costs = costs_of(diagnosis, machine.cpus).sparing(unexplained_s(diagnosis))
        best = max(candidates, key=lambda s: costs.refilled_s(s.index))
        alone = costs.step_s()
        predicted = max(1.0, costs.refilled_s(best.index) / alone) if alone else 1.0
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        assert best.buffer is not None
        full = no_room(diagnosis, policy, best.buffer.maps)
        if full:
            return full
        return Proposal(
            edits=(ShuffleFirst(stage=best.index, expects=diagnosis.workload.pipeline),),
            predicted=predicted,
            at=best.at,
            why=f"{best.buffer.elements:,} elements need not be made before the first batch",
            source_edit=_SOURCE,
        )
