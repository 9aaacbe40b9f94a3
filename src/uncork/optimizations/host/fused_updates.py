"""Update each weight by one kernel of TensorFlow's.

Legal because the kernel does the arithmetic that Keras writes down, in Keras's order, on the state
where Keras keeps it: with momentum the proof finds the same bits; Adam's betas are subtracted from
one in float32, which rounds otherwise. What Keras does around the update (clipping, decay,
averages, accumulation) stays Keras's. Not every optimizer has a kernel that does the same: Nadam's
schedules its momentum otherwise, Adagrad's adds its epsilon elsewhere. Measured on each model:
where weights are small, the vector of all of them wins more.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.step import FusedUpdates
from uncork.optimizations.base.preconditions import any_step_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    is_worth_trying,
    low_gain_refusal,
)

# Ratio of a step whose weights are large and its batch small, at best; and of the time of the
# optimizer's kernels, what one for each weight saves at best. These only decide whether a trial is
# worth its time.
_AT_BEST: Final = 1.8
_SAVED: Final = 0.8


def _refusal(context: Context) -> str:
    if not context.workload.fusable_weight_count:
        return (
            "TensorFlow has no kernel for this optimizer, which does the same, or there "
            "are no weights before the first step"
        )
    return "XLA fuses the update already" if context.workload.jit_compile else ""


@final
class FusedUpdatesOptimization(Optimization):
    """One kernel for the whole update of a weight."""

    name = "fused_updates"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (any_step_refusal, _refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Where the optimizer has such a kernel, and the step takes a good part of the time."""
        work = context.workload
        possible = _possible(context)
        if not is_worth_trying(possible):
            return low_gain_refusal(possible)
        return Proposal(
            edits=(FusedUpdates(code_digest=work.step_code_digest),),
            predicted=None,
            at=work.step_setup_at or work.at,
            rationale=(
                f"{work.fusable_weight_count} weights are updated by one kernel each, not by a "
                "dozen"
            ),
            source_edit="an optimizer of your own, as its page shows",
        )


def _possible(context: Context) -> float:
    if not context.diagnosis.kernels:
        return context.diagnosis.speedup_with_faster_step(_AT_BEST)
    share = sum(part.share for part in context.diagnosis.kernels if part.phase == "optimizer")
    return context.diagnosis.speedup_without_kernels(_SAVED * share)
