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

from uncork.core.attribution import costs_of
from uncork.core.costmodel import gain
from uncork.core.diagnosis import WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.core.pipeline_edit import ReadAhead
from uncork.core.plan import Policy
from uncork.core.stage import Stage
from uncork.road.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    no_pipeline,
    not_worth,
)

# Room for elements of files that are longer than those that were looked at.
_MORE: Final = 1.25
# Shorter ones are over before another thread is awake.
_LEAST_S: Final = 2e-3
_SOURCE: Final = (
    "files.interleave(lambda file: tf.data.TFRecordDataset(file).prefetch({elements}), "
    "cycle_length={readers}, block_length=1 << 40, num_parallel_calls={readers}, "
    "deterministic=True)"
)


@final
class ReadFilesAhead(Optimization):
    """Give each of some files a thread, and keep their order."""

    name = "read_ahead"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """As many files as there are cores, of the stage that is predicted to win most."""
        missing = no_pipeline(diagnosis)
        if missing:
            return missing
        in_turn = [s for s in diagnosis.stages if s.readers and s.of_one]
        if not in_turn:
            return Skipped(reason="nothing was seen to go through several files, and a file's end")
        costs = costs_of(diagnosis, machine.cpus)
        predicted, index = max((gain(costs, costs.parallel(s.index)), s.index) for s in in_turn)
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        best = next(s for s in in_turn if s.index == index)
        return _proposal(diagnosis, machine, policy, best, predicted)


def _proposal(
    diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy, best: Stage, predicted: float
) -> Proposal | Skipped:
    of_one = best.of_one or 0
    file_s = of_one * (best.wall_s_per_element or 0.0)
    if file_s < _LEAST_S:
        return Skipped(reason=f"a file is read in {1e3 * file_s:.2g} ms, too soon to share it out")
    readers = min(best.readers or 1, max(2, math.ceil(machine.cpus)))
    elements = math.ceil(_MORE * of_one)
    needed = readers * elements * (best.bytes_per_element or 0)
    room = policy.memory_share * diagnosis.memory_available_bytes
    if needed > room:
        return Skipped(
            reason=f"needs {needed / 1e9:.1f} GB of memory, the budget is {room / 1e9:.1f} GB"
        )
    return Proposal(
        edits=(
            ReadAhead(
                stage=best.index,
                expects=diagnosis.workload.pipeline,
                readers=readers,
                elements=elements,
            ),
        ),
        predicted=predicted,
        at=best.at,
        why=(
            f"{readers} files are read side by side and held until it is their turn, up to "
            f"{needed / 1e6:,.3g} MB"
        ),
        source_edit=_SOURCE.format(elements=elements, readers=readers),
    )
