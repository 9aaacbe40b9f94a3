"""Update all small weights as one vector.

Legal because the updates of most optimizers are elementwise: what becomes of an element depends on
its own gradient and state alone, not on the weight it is in. So Keras's own update, run once on all
small weights laid end to end, does the same arithmetic on the same numbers; the proof compares
weights and optimizer state bit for bit. What Keras does around the update, by weight (clipping,
decay, constraints), stays with the weights. Not elementwise: Lamb, Muon, Adafactor. Not worth it:
plain SGD, whose update is a single kernel; XLA, which fuses them anyway. The optimizer's state is
back in its place at the end of each epoch; a callback that acts on every batch might look earlier.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.step import FlatUpdates
from uncork.optimizations.base.preconditions import step_edit_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    is_worth_trying,
    low_gain_refusal,
)

# Ratio of a step with twenty small layers at best; it only decides whether a trial is worth its
# time.
_AT_BEST: Final = 2.0


def _refusal(context: Context) -> str:
    workload = context.workload
    if not workload.small_weight_count:
        return (
            "few small weights, none before the first step, or an optimizer whose update "
            "cannot be run on all of them at once"
        )
    if workload.jit_compile:
        return "XLA fuses these kernels already"
    if workload.batch_callbacks:
        names = ", ".join(workload.batch_callbacks)
        return f"callbacks act on every batch and may look at its state: {names}"
    if workload.is_fit_in_loop:
        return "fit is called for a few steps at a time, and its state laid together anew"
    return ""


@final
class FlatUpdatesOptimization(Optimization):
    """One update of all small weights instead of one of each."""

    name = "flat_updates"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (step_edit_refusal, _refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Where there are many small weights, and the step takes a good part of the time."""
        possible = context.diagnosis.speedup_with_faster_step(_AT_BEST)
        if not is_worth_trying(possible):
            return low_gain_refusal(possible)
        weights = context.workload.small_weight_count
        return Proposal(
            edits=(FlatUpdates(),),
            predicted=None,
            at=context.workload.step_setup_at or context.workload.at,
            rationale=f"{weights} small weights are updated by one set of kernels, not by one each",
            source_edit="no setting of Keras's: train with 'uncork run --plan'",
        )
