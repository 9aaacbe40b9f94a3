"""Read several files in parallel where a pipeline reads one after the other.

Legal as ``exact``: an interleave whose blocks are longer than any file gives the elements of one
file after those of another, as before, and elements that other threads read from later files wait
for their turn. The stages that open and read the files use no random numbers and keep no state that
threads could share.

Elements of later files wait in memory: whole files, or nothing would be gained. So Uncork proposes
this only where it saw the end of a file, and where as many files fit into memory.
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

# Ratio. Allows for files with more elements than the measured ones.
_MORE_ELEMENTS: Final = 1.25
# Bytes of an element in addition to its values, while it waits.
_ELEMENT_OVERHEAD_BYTES: Final = 250
_SOURCE: Final = (
    "files.interleave(open_file, cycle_length={readers}, block_length=1 << 40, "
    "num_parallel_calls={readers}, deterministic=True)  # holds three times as many files"
)


@final
class ReadAheadOptimization(Optimization):
    """Give each of several files a thread, and keep their order."""

    name = "read_ahead"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Read as many files as there are cores, for the stage with the largest predicted gain."""
        sequential = [
            s
            for s in context.stages
            if s.max_readers and s.max_input_elements and s.bytes_per_element
        ]
        if not sequential:
            return Skipped(
                reason="no stage reads several files, or Uncork did not see the end of a file"
            )
        edits = {s.index: _edit(context, s) for s in sequential}
        budget = context.memory_budget_bytes
        fitting = [s for s in sequential if edits[s.index].size_bytes <= budget]
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
                f"{edit.readers} threads read one file each, and elements wait for their turn in "
                f"up to {edit.size_bytes / 1e6:,.3g} MB"
            ),
            source_edit=_SOURCE.format(readers=edit.readers),
        )


def _edit(context: Context, stage: Stage) -> ReadAhead:
    readers = min(stage.max_readers or 1, max(2, math.ceil(context.machine.cpus)))
    elements = math.ceil(_MORE_ELEMENTS * (stage.max_input_elements or 0))
    return ReadAhead(
        stage=stage.index,
        expected_digest=context.pipeline_digest,
        readers=readers,
        elements_per_reader=elements,
        size_bytes=readers * elements * ((stage.bytes_per_element or 0) + _ELEMENT_OVERHEAD_BYTES),
    )
