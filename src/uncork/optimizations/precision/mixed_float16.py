"""Compute in float16 and scale the loss, where the device knows no bfloat16.

Legal as ``precision``, with less to stand on than bfloat16: float16 overflows beyond 65,504 and
loses what is smaller than 6e-8. Loss scaling as Keras has it keeps gradients between the two, and
the proof trains with it: it asks whether the loss curve stays inside the noise that the user's own
training shows from one data order to the next. Layers that only draw at random stay in float32.
Tried on GPUs with tensor cores for float16 alone; a CPU is slower with it.
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

# Ratio at best, where nothing was measured: half the bytes moved, and tensor cores.
_AT_BEST: Final = 2.0


def _refusal(context: Context) -> str:
    if context.workload.is_fit_in_loop:
        return "each call of fit would begin to look for its loss scale again"
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
        """float16, where it is all that the device has, and the kernels take their time."""
        lower = context.diagnosis.float16_speedup
        predicted = context.diagnosis.speedup_with_faster_step(lower.ratio if lower else _AT_BEST)
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
            rationale="half the bytes, float16 arithmetic of tensor cores, the loss scaled",
            source_edit=_in_loop(keep) if context.is_loop else _source_edit(keep),
        )


def _source_edit(keep: tuple[str, ...]) -> str:
    policy = 'keras.mixed_precision.set_global_policy("mixed_float16")  # before compile, too'
    return f'{policy}\n# dtype="float32" for {shorten_list(keep)}' if keep else policy


def _in_loop(keep: tuple[str, ...]) -> str:
    scaled = (
        "optimizer = keras.optimizers.LossScaleOptimizer(optimizer)\n"
        "gradients = tape.gradient(optimizer.scale_loss(loss), weights)"
    )
    return f"{_source_edit(keep)}\n{scaled}"
