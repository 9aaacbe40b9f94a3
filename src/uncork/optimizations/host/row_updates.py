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

from uncork.core.edits.step import RowUpdates
from uncork.core.evidence.kernels import Phase
from uncork.optimizations.base.preconditions import step_edit_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

# What passes over a table as a whole only because it is read and updated so.
_PHASES: Final[tuple[Phase, ...]] = ("forward", "optimizer")


@final
class RowUpdatesOptimization(Optimization):
    """No pass over the rows of a table that no sample of the batch looks up."""

    name = "row_updates"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (step_edit_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Where kernels pass over tables that are large beside what a batch looks up."""
        work = context.workload
        if not work.row_update_table_count:
            return Skipped(
                reason="no table of an Embedding before the first step, or an optimizer that "
                "changes the other rows of a table, too"
            )
        passes = [
            p
            for p in context.diagnosis.kernels
            if p.max_used_rows < p.table_rows and p.phase in _PHASES
        ]
        if not passes:
            return Skipped(reason="no kernel of the step is known to pass over a whole table")
        share = sum(part.share * (1 - part.max_used_rows / part.table_rows) for part in passes)
        largest = max(passes, key=lambda part: part.share)
        return Proposal(
            edits=(RowUpdates(),),
            predicted=context.diagnosis.speedup_without_kernels(share),
            at=largest.at or work.step_setup_at or work.at,
            rationale=(
                f"a batch looks up {largest.max_used_rows:,} of {largest.table_rows:,} rows, and "
                "no others are read or written"
            ),
            source_edit="an Embedding and an optimizer of your own, as its page shows",
        )
