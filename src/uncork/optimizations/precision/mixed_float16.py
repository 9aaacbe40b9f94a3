"""Compute in float16 and scale the loss, where the device knows no bfloat16.

Legal as ``precision``, with less to stand on than bfloat16: float16 overflows beyond 65,504 and
loses what is smaller than 6e-8. Loss scaling as Keras has it keeps gradients between the two, and
the proof trains with it: it asks whether the loss curve stays inside the noise that the user's own
training shows from one data order to the next. Layers that only draw at random stay in float32.
Tried on GPUs with tensor cores for float16 alone; a CPU is slower with it.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.errors import in_short
from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.step import DtypePolicy
from uncork.optimizations.base.preconditions import (
    ends_unknown,
    no_policy_edit,
    policies_of_its_own,
)
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

# Ratio at best, where nothing was measured: half the bytes moved, and tensor cores.
_AT_BEST: Final = 2.0


@final
class MixedFloat16(Optimization):
    """Switch the built model's dtype policy to ``mixed_float16``, and scale its loss."""

    name = "mixed_float16"
    stage = "precision"
    guarantee = "precision"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """float16, where it is all that the device has, and the kernels take their time."""
        forbidden = (
            no_policy_edit(diagnosis) or _forbidden(diagnosis) or ends_unknown(diagnosis.workload)
        )
        if forbidden:
            return forbidden
        lower = diagnosis.in_float16
        predicted = diagnosis.with_step_faster(lower.ratio if lower else _AT_BEST)
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        work = diagnosis.workload
        keep = work.kept_in("mixed_float16")
        return Proposal(
            edits=(
                DtypePolicy(
                    policy="mixed_float16", keep=keep, code=work.step_code, careful=work.careful
                ),
            ),
            predicted=predicted if lower else None,
            at=diagnosis.workload.at,
            why="half the bytes, float16 arithmetic of tensor cores, the loss scaled",
            source_edit=_in_loop(keep) if work.kind == "custom_loop" else _source_edit(keep),
        )


def _source_edit(keep: tuple[str, ...]) -> str:
    policy = 'keras.mixed_precision.set_global_policy("mixed_float16")  # before compile, too'
    return f'{policy}\n# dtype="float32" for {in_short(keep)}' if keep else policy


def _in_loop(keep: tuple[str, ...]) -> str:
    scaled = (
        "optimizer = keras.optimizers.LossScaleOptimizer(optimizer)\n"
        "gradients = tape.gradient(optimizer.scale_loss(loss), weights)"
    )
    return f"{_source_edit(keep)}\n{scaled}"


def _forbidden(diagnosis: WorkloadDiagnosis) -> Skipped | None:
    work = diagnosis.workload
    if work.called_in_loop:
        return Skipped(reason="each call of fit would begin to look for its loss scale again")
    if diagnosis.bfloat16:
        return Skipped(reason="this device computes bfloat16, which needs no loss scaling")
    if not diagnosis.float16:
        known = "is not" if diagnosis.float16 is False else "is not known to be"
        return Skipped(reason=f"this device {known} faster in float16")
    return policies_of_its_own(diagnosis)
