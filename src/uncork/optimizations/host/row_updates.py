"""Read and update only those rows of a table that a batch looks up.

Legal where a row without a gradient would not change: Adagrad adds the square of nothing to its
sum and subtracts nothing, plain SGD subtracts nothing. The rows that are left get Keras's
arithmetic in Keras's order, so weights and state are the same bits; rows that are looked up twice
are treated as Keras treats them. Not legal for what decays in every step: the moments of Adam and
RMSprop, momentum, weights, averages. Not Ftrl, which makes all weights anew from its state. Worth
it by the rows of a table against those of a batch, as the kernels of the step tell.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.step import RowUpdates
from uncork.core.evidence.kernels import Phase
from uncork.optimizations.base.preconditions import no_step_edit
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

# What passes over a table as a whole only because it is read and updated so.
_PHASES: Final[tuple[Phase, ...]] = ("forward", "optimizer")


@final
class UpdateRows(Optimization):
    """No pass over the rows of a table that no sample of the batch looks up."""

    name = "row_updates"
    stage = "host"
    guarantee = "exact"
    at_worst = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Where kernels pass over tables that are large beside what a batch looks up."""
        work = diagnosis.workload
        forbidden = no_step_edit(diagnosis)
        if forbidden:
            return forbidden
        if not work.row_tables:
            return Skipped(
                reason="no table of an Embedding before the first step, or an optimizer that "
                "changes the other rows of a table, too"
            )
        passes = [p for p in diagnosis.kernels if p.rows_used < p.rows and p.phase in _PHASES]
        if not passes:
            return Skipped(reason="no kernel of the step is known to pass over a whole table")
        possible = diagnosis.without_kernels(
            sum(part.share * (1 - part.rows_used / part.rows) for part in passes)
        )
        if possible < WORTH_TRYING:
            return not_worth(possible)
        largest = max(passes, key=lambda part: part.share)
        return Proposal(
            edits=(RowUpdates(),),
            predicted=possible,
            at=largest.at or work.step_at or work.at,
            why=f"a batch looks up {largest.rows_used:,} of {largest.rows:,} rows, and no others "
            "are read or written",
            source_edit="an Embedding and an optimizer of your own, as its page shows",
        )
