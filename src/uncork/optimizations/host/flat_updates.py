"""Update all small weights as one vector.

Legal because the updates of most optimizers are elementwise: the new value of an element depends on
its own gradient and state alone, not on the weight that contains it. So Keras's own update, run
once on all small weights in one vector, does the same arithmetic on the same numbers; the proof
compares weights and optimizer state bit for bit. What Keras does around the update for each weight
(clipping, decay, constraints) stays as it is. Lamb, Muon and Adafactor are not elementwise. It is
not worthwhile for plain SGD, whose update is a single kernel, or with XLA, which fuses the updates
anyway. At the end of each epoch the optimizer's state is back in its variables; a callback that
acts on every batch might read it earlier.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.step import FlatUpdates
from uncork.core.evidence.kernels import MAX_SHORT_KERNEL_S
from uncork.optimizations.base.preconditions import step_edit_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    is_worth_trying,
    low_gain_refusal,
)

# Largest speed-up of a step with twenty small layers; it only decides whether to try, where the
# kernels of the step are not known.
_MAX_SPEEDUP: Final = 2.0


def _refusal(context: Context) -> str:
    workload = context.workload
    if not workload.small_weight_count:
        return (
            "few small weights, none before the first step, or an optimizer whose update "
            "cannot run on all of them as one vector"
        )
    if workload.jit_compile:
        return "XLA fuses these kernels already"
    if workload.batch_callbacks:
        names = ", ".join(workload.batch_callbacks)
        return f"callbacks act on every batch and may read the optimizer's state: {names}"
    if workload.is_fit_in_loop:
        return "each call of fit runs a few steps only, and joins the state again"
    return ""


@final
class FlatUpdatesOptimization(Optimization):
    """Update all small weights in one step instead of one by one."""

    name = "flat_updates"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (step_edit_refusal, _refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it for many small weights in a step that takes a large share of the time."""
        possible = _possible(context)
        if not is_worth_trying(possible):
            return low_gain_refusal(possible)
        weights = context.workload.small_weight_count
        return Proposal(
            edits=(FlatUpdates(),),
            predicted=None,
            at=context.workload.step_setup_at or context.workload.at,
            rationale=f"one set of kernels updates {weights} small weights, not one set for each",
            source_edit="Keras has no such setting: train with 'uncork run --plan'",
        )


def _possible(context: Context) -> float:
    """Largest speed-up: what all kernels of the update take, and their starts on the host."""
    by_step = context.diagnosis.speedup_with_faster_step(_MAX_SPEEDUP)
    if not context.diagnosis.kernels:
        return by_step
    updates = [part for part in context.diagnosis.kernels if part.phase == "optimizer"]
    share = sum(part.share for part in updates)
    calls = sum(part.calls_per_step for part in updates)
    kernels_s = context.diagnosis.breakdown.get("step", 0.0) * context.diagnosis.step_s
    if kernels_s <= 0:
        return by_step
    share += calls * MAX_SHORT_KERNEL_S / kernels_s
    return min(by_step, context.diagnosis.speedup_without_kernels(min(1.0, share)))
