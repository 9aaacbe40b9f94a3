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
from uncork.optimizations.base.preconditions import no_function_edit, no_step_edit
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

# Ratio of a step whose weights are large and its batch small, at best; and of the time of the
# optimizer's kernels, what one for each weight saves at best. These only decide whether a trial is
# worth its time.
_AT_BEST: Final = 1.8
_SAVED: Final = 0.8


@final
class UpdateInOneKernel(Optimization):
    """One kernel for the whole update of a weight."""

    name = "fused_updates"
    stage = "host"
    guarantee = "exact"
    at_worst = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Where the optimizer has such a kernel, and the step takes a good part of the time."""
        work = diagnosis.workload
        in_loop = work.kind == "custom_loop"
        forbidden = no_function_edit(diagnosis) if in_loop else no_step_edit(diagnosis)
        if forbidden:
            return forbidden
        if not work.fusable_weights:
            return Skipped(
                reason="TensorFlow has no kernel for this optimizer, which does the same, or there "
                "are no weights before the first step"
            )
        if work.jit_compile:
            return Skipped(reason="XLA fuses the update already")
        possible = _possible(diagnosis)
        if possible < WORTH_TRYING:
            return not_worth(possible)
        return Proposal(
            edits=(FusedUpdates(code=work.step_code),),
            predicted=None,
            at=work.step_at or work.at,
            why=f"{work.fusable_weights} weights are updated by one kernel each, not by a dozen",
            source_edit="an optimizer of your own, as its page shows",
        )


def _possible(diagnosis: WorkloadDiagnosis) -> float:
    if not diagnosis.kernels:
        return diagnosis.with_step_faster(_AT_BEST)
    share = sum(part.share for part in diagnosis.kernels if part.phase == "optimizer")
    return diagnosis.without_kernels(_SAVED * share)
