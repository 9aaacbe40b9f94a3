"""Compute in float16 and scale the loss, where the device does not compute bfloat16.

Legal as ``precision``, with a smaller margin than bfloat16: float16 overflows above 65,504 and
loses values below 6e-8. The loss scaling of Keras keeps gradients between the two, and the proof
trains with it: it tests whether the loss curve stays within the variance between two data orders of
the user's own training. Layers that only compute random numbers stay in float32. Uncork tries this
only on GPUs with tensor cores for float16; a CPU is slower with it.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.errors import shorten_list
from uncork.core.edits.step import DtypePolicy
from uncork.optimizations.base.preconditions import (
    mixed_policies_refusal,
    policy_edit_refusal,
    unknown_length_refusal,
)
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    is_worth_trying,
    low_gain_refusal,
)

# Largest speed-up, if not measured: half the bytes moved, and tensor cores.
_MAX_SPEEDUP: Final = 2.0


def _refusal(context: Context) -> str:
    if context.workload.is_fit_in_loop:
        return "each call of fit would search its loss scale again"
    if context.diagnosis.has_native_bfloat16:
        return "this device computes bfloat16, which needs no loss scaling"
    if not context.diagnosis.has_fast_float16:
        known = "is not" if context.diagnosis.has_fast_float16 is False else "is not known to be"
        return f"this device {known} faster in float16"
    return ""


@final
class MixedFloat16Optimization(Optimization):
    """Switch the built model's dtype policy to ``mixed_float16``, and scale its loss."""

    name = "mixed_float16"
    stage = "precision"
    guarantee = "precision"
    preconditions = (policy_edit_refusal, _refusal, mixed_policies_refusal, unknown_length_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select float16 where the device lacks bfloat16 and kernels limit the step."""
        lower = context.diagnosis.float16_speedup
        predicted = context.diagnosis.speedup_with_faster_step(
            lower.ratio if lower else _MAX_SPEEDUP
        )
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        work = context.workload
        keep = work.float32_layers("mixed_float16")
        return Proposal(
            edits=(
                DtypePolicy(
                    policy="mixed_float16",
                    float32_layers=keep,
                    code_digest=work.step_code_digest,
                    is_precision_conservative=work.is_precision_conservative,
                ),
            ),
            predicted=predicted if lower else None,
            at=work.at,
            rationale="half the bytes, float16 arithmetic of tensor cores, a scaled loss",
            source_edit=_in_loop(keep) if context.is_loop else _source_edit(keep),
        )


def _source_edit(keep: tuple[str, ...]) -> str:
    policy = 'keras.mixed_precision.set_global_policy("mixed_float16")  # also before compile'
    return f'{policy}\n# dtype="float32" for {shorten_list(keep)}' if keep else policy


def _in_loop(keep: tuple[str, ...]) -> str:
    scaled = (
        "optimizer = keras.optimizers.LossScaleOptimizer(optimizer)\n"
        "gradients = tape.gradient(optimizer.scale_loss(loss), weights)"
    )
    return f"{_source_edit(keep)}\n{scaled}"
