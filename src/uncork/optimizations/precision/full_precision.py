"""Compute in float32 where a lower precision is slower.

Legal as ``precision``: under a mixed policy the weights are float32, so only the kernels change, to
more exact ones. Uncork still proves that the loss curve stays the same. It tries this only where
the diagnosis measured a faster step: on a device without kernels for the policy that the script
sets.
"""

from __future__ import annotations

from typing import final

from uncork.core.edits.step import DtypePolicy
from uncork.optimizations.base.preconditions import policy_edit_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped


@final
class FullPrecisionOptimization(Optimization):
    """Switch the built model's dtype policy from a mixed one to ``float32``."""

    name = "full_precision"
    stage = "precision"
    guarantee = "precision"
    preconditions = (policy_edit_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select float32 where the diagnosis measured it as faster."""
        full, policies = context.diagnosis.float32_speedup, context.workload.dtype_policies
        if full is None:
            return Skipped(
                reason="the model computes in float32 already, or was not measured in float32"
            )
        if "mixed_float16" in policies:
            return Skipped(
                reason="Keras scales the loss of mixed_float16, and would keep "
                "doubling the scale in float32, where nothing overflows; remove the policy yourself"
            )
        low = ", ".join(each for each in policies if each != "float32")
        return Proposal(
            edits=(DtypePolicy(policy="float32", code_digest=context.workload.step_code_digest),),
            predicted=context.diagnosis.speedup_with_faster_step(full.ratio),
            at=context.workload.dtype_policy_at or context.workload.at,
            rationale=f"float32 is faster than {low}",
            source_edit=f"remove the dtype policy {low}",
        )
