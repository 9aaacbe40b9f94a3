"""Update each weight with one kernel of TensorFlow.

Legal because the kernel does the same arithmetic as Keras, in the same order, on Keras's own state:
with momentum the proof finds the same bits; Adam subtracts its betas from one in float32, which
rounds differently. What Keras does around the update (clipping, decay, averages, accumulation)
stays as it is. Not every optimizer has an equivalent kernel: Nadam's kernel schedules its momentum
differently, Adagrad's adds its epsilon in another place. Uncork measures it on each model: for
small weights, one vector of all of them gains more.
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

# Largest speed-up of a step with large weights and a small batch; and the largest share of the
# time of the optimizer's kernels that one kernel per weight saves. They only decide whether to try.
_MAX_SPEEDUP: Final = 1.8
_SAVED: Final = 0.8


def _refusal(context: Context) -> str:
    if not context.workload.fusable_weight_count:
        return (
            "TensorFlow has no kernel that does the same as this optimizer, or there "
            "are no weights before the first step"
        )
    return "XLA fuses the update already" if context.workload.jit_compile else ""


@final
class FusedUpdatesOptimization(Optimization):
    """Use one kernel for the whole update of a weight."""

    name = "fused_updates"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (any_step_refusal, _refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it where such a kernel exists and the step takes a large share of the time."""
        work = context.workload
        possible = _possible(context)
        if not is_worth_trying(possible):
            return low_gain_refusal(possible)
        return Proposal(
            edits=(FusedUpdates(code_digest=work.step_code_digest),),
            predicted=None,
            at=work.step_setup_at or work.at,
            rationale=(
                f"one kernel updates each of {work.fusable_weight_count} weights, not a dozen"
            ),
            source_edit="an optimizer of your own, as its page shows",
        )


def _possible(context: Context) -> float:
    if not context.diagnosis.kernels:
        return context.diagnosis.speedup_with_faster_step(_MAX_SPEEDUP)
    share = sum(part.share for part in context.diagnosis.kernels if part.phase == "optimizer")
    return context.diagnosis.speedup_without_kernels(_SAVED * share)
