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

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.step import FusedUpdates
from uncork.optimizations.base.preconditions import function_edit_refusal, step_edit_refusal
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)

# Ratio of a step whose weights are large and its batch small, at best; and of the time of the
# optimizer's kernels, what one for each weight saves at best. These only decide whether a trial is
# worth its time.
_AT_BEST: Final = 1.8
_SAVED: Final = 0.8


@final
class FusedUpdatesOptimization(Optimization):
    """One kernel for the whole update of a weight."""

    name = "fused_updates"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Where the optimizer has such a kernel, and the step takes a good part of the time."""
        work = diagnosis.workload
        in_loop = work.kind == "custom_loop"
        forbidden = function_edit_refusal(diagnosis) if in_loop else step_edit_refusal(diagnosis)
        if forbidden:
            return forbidden
        if not work.fusable_weight_count:
            return Skipped(
                reason="TensorFlow has no kernel for this optimizer, which does the same, or there "
                "are no weights before the first step"
            )
        if work.jit_compile:
            return Skipped(reason="XLA fuses the update already")
        possible = _possible(diagnosis)
        if possible < MIN_PREDICTED_SPEEDUP:
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


def _possible(diagnosis: WorkloadDiagnosis) -> float:
    if not diagnosis.kernels:
        return diagnosis.speedup_with_faster_step(_AT_BEST)
    share = sum(part.share for part in diagnosis.kernels if part.phase == "optimizer")
    return diagnosis.speedup_without_kernels(_SAVED * share)
