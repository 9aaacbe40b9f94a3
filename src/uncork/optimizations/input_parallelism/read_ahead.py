"""Read several files at once where they are gone through one after the other.

Legal as ``exact``: an interleave whose blocks are longer than any file gives the elements of one
file after those of the other, as before, and what other threads have read of later files waits
until it is their turn. What the files are opened and read by draws no random numbers and keeps no
state that threads could share.

What is read ahead is held in memory: whole files, or there would be nothing to win. So it is done
only where the end of a file was seen, and where so many of them have room.
"""

from __future__ import annotations

import math
from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import ReadAhead
from uncork.core.evidence.stage import Stage
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)

# Room for elements of files that are longer than those that were looked at.
_MORE: Final = 1.25
# Bytes of an element beside its values, while it waits.
_BESIDE: Final = 250
_SOURCE: Final = (
    "files.interleave(what_opens_one, cycle_length={readers}, block_length=1 << 40, "
    "num_parallel_calls={readers}, deterministic=True)  # holds three times as many files"
)


@final
class ReadAheadOptimization(Optimization):
    """Give each of some files a thread, and keep their order."""

    name = "read_ahead"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """As many files as there are cores, of the stage that is predicted to win most."""
        missing = pipeline_refusal(diagnosis)
        if missing:
            return missing
        in_turn = [
            s
            for s in diagnosis.stages
            if s.max_readers and s.max_input_elements and s.bytes_per_element
        ]
        if not in_turn:
            return Skipped(
                reason="nothing was seen to go through several files, and the end of a file"
            )
        edits = {s.index: _edit(diagnosis, machine, s) for s in in_turn}
        room = policy.memory_share * diagnosis.memory_available_bytes
        fitting = [s for s in in_turn if edits[s.index].size_bytes <= room]
        if not fitting:
            least = min(edit.size_bytes for edit in edits.values())
            return Skipped(
                reason=f"needs {least / 1e9:.1f} GB of memory, the budget is {room / 1e9:.1f} GB"
            )
        costs = attribute_costs(diagnosis, machine.cpus)
        gains = {s.index: predict_gain(costs, costs.with_parallel_stage(s.index)) for s in fitting}
        best = max(fitting, key=lambda s: gains[s.index])
        if gains[best.index] < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(gains[best.index])
        return _proposal(edits[best.index], best, gains[best.index])


def _edit(diagnosis: WorkloadDiagnosis, machine: Machine, stage: Stage) -> ReadAhead:
    readers = min(stage.max_readers or 1, max(2, math.ceil(machine.cpus)))
    elements = math.ceil(_MORE * (stage.max_input_elements or 0))
    return ReadAhead(
        stage=stage.index,
        expected_digest=diagnosis.workload.pipeline_digest,
        readers=readers,
        elements_per_reader=elements,
        size_bytes=readers * elements * ((stage.bytes_per_element or 0) + _BESIDE),
    )


def _proposal(edit: ReadAhead, best: Stage, predicted: float) -> Proposal:
    return Proposal(
        edits=(edit,),
        predicted=predicted,
        at=best.at,
        rationale=(
            f"{edit.readers} files are read side by side and held until it is their turn, up to "
            f"{edit.size_bytes / 1e6:,.3g} MB"
        ),
        source_edit=_SOURCE.format(readers=edit.readers),
    )
