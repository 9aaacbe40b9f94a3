"""Read and update only those rows of a table that a batch looks up.

Legal where a row without a gradient would not change: Adagrad adds zero to its sum and subtracts
zero, plain SGD subtracts zero. The other rows get Keras's arithmetic in Keras's order, so weights
and state are the same bits; rows that are looked up twice are treated as Keras treats them. It is
not legal for anything that decays in every step: the moments of Adam and RMSprop, momentum,
weights, averages. Nor is it for Ftrl, which computes all weights from its state again. The gain
depends on the rows of the table and of the batch, as the kernels of the step show.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.step import RowUpdates
from uncork.core.evidence.kernels import Phase
from uncork.optimizations.base.preconditions import step_edit_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped

# Phases in which kernels process a whole table.
_PHASES: Final[tuple[Phase, ...]] = ("forward", "optimizer")


@final
class RowUpdatesOptimization(Optimization):
    """Skip the rows of a table that no sample of the batch looks up."""

    name = "row_updates"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (step_edit_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it where kernels process tables much larger than the looked-up rows."""
        work = context.workload
        if not work.row_update_table_count:
            return Skipped(
                reason="no table of an Embedding before the first step, or an optimizer that "
                "also changes the other rows of a table"
            )
        passes = [
            p
            for p in context.diagnosis.kernels
            if p.max_used_rows < p.table_rows and p.phase in _PHASES
        ]
        if not passes:
            return Skipped(reason="no kernel of the step is known to process a whole table")
        share = sum(part.share * (1 - part.max_used_rows / part.table_rows) for part in passes)
        largest = max(passes, key=lambda part: part.share)
        return Proposal(
            edits=(RowUpdates(),),
            predicted=context.diagnosis.speedup_without_kernels(share),
            at=largest.at or work.step_setup_at or work.at,
            rationale=(
                f"a batch looks up {largest.max_used_rows:,} of {largest.table_rows:,} rows, and "
                "the step reads and writes no others"
            ),
            source_edit="an Embedding and an optimizer of your own, as its page shows",
        )
