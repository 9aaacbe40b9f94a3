"""Compute in bfloat16, with weights in float32.

Legal as ``precision``: bfloat16 has the range of float32 and 8 bits of precision, so the loss needs
no scaling. The proof tests whether the loss curve stays within the variance between two data orders
of the user's own training. Layers that only compute random numbers stay in float32: in 16 bits they
sample other numbers, and the loss would differ for that reason alone. Uncork tries this only where
the device computes bfloat16 natively: elsewhere it is emulated and slower.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.errors import shorten_list
from uncork.core.edits.step import DtypePolicy
from uncork.optimizations.base.preconditions import mixed_policies_refusal, policy_edit_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    is_worth_trying,
    low_gain_refusal,
)

# Largest speed-up, if not measured: half the bytes moved, twice the multiply-adds a cycle.
_MAX_SPEEDUP: Final = 2.0


def _refusal(context: Context) -> str:
    is_native = context.diagnosis.has_native_bfloat16
    known = "does not compute" if is_native is False else "is not known to compute"
    return "" if is_native else f"this device {known} bfloat16 natively"


@final
class MixedBfloat16Optimization(Optimization):
    """Switch the built model's dtype policy to ``mixed_bfloat16``."""

    name = "mixed_bfloat16"
    stage = "precision"
    guarantee = "precision"
    preconditions = (policy_edit_refusal, mixed_policies_refusal, _refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select bfloat16 where the device has it and kernels take a large share of a step."""
        lower = context.diagnosis.bfloat16_speedup
        predicted = context.diagnosis.speedup_with_faster_step(
            lower.ratio if lower else _MAX_SPEEDUP
        )
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        work = context.workload
        keep = work.float32_layers("mixed_bfloat16")
        return Proposal(
            edits=(
                DtypePolicy(
                    policy="mixed_bfloat16",
                    float32_layers=keep,
                    code_digest=work.step_code_digest,
                    is_precision_conservative=work.is_precision_conservative,
                ),
            ),
            predicted=predicted if lower else None,
            at=work.at,
            rationale="half the bytes, native bfloat16 arithmetic",
            source_edit=_source_edit(keep),
        )


def _source_edit(keep: tuple[str, ...]) -> str:
    policy = 'keras.mixed_precision.set_global_policy("mixed_bfloat16")'
    return f'{policy}\n# dtype="float32" for {shorten_list(keep)}' if keep else policy
