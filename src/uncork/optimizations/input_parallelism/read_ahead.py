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

from uncork.core.edits.pipeline import ReadAhead
from uncork.core.evidence.stage import Stage
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    best_gain,
    memory_refusal,
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
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """As many files as there are cores, of the stage that is predicted to win most."""
        in_turn = [
            s
            for s in context.stages
            if s.max_readers and s.max_input_elements and s.bytes_per_element
        ]
        if not in_turn:
            return Skipped(
                reason="nothing was seen to go through several files, and the end of a file"
            )
        edits = {s.index: _edit(context, s) for s in in_turn}
        budget = context.memory_budget_bytes
        fitting = [s for s in in_turn if edits[s.index].size_bytes <= budget]
        if not fitting:
            return memory_refusal(min(edit.size_bytes for edit in edits.values()), budget)
        costs = context.costs
        best, predicted = best_gain(costs, fitting, lambda s: costs.with_parallel_stage(s.index))
        edit = edits[best.index]
        return Proposal(
            edits=(edit,),
            predicted=predicted,
            at=best.at,
            rationale=(
                f"{edit.readers} files are read side by side and held until it is their turn, up "
                f"to {edit.size_bytes / 1e6:,.3g} MB"
            ),
            source_edit=_SOURCE.format(readers=edit.readers),
        )


def _edit(context: Context, stage: Stage) -> ReadAhead:
    readers = min(stage.max_readers or 1, max(2, math.ceil(context.machine.cpus)))
    elements = math.ceil(_MORE * (stage.max_input_elements or 0))
    return ReadAhead(
        stage=stage.index,
        expected_digest=context.pipeline_digest,
        readers=readers,
        elements_per_reader=elements,
        size_bytes=readers * elements * ((stage.bytes_per_element or 0) + _BESIDE),
    )
