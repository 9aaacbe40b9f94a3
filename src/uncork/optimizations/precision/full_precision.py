"""Compute in float32 where a lower precision is slower.

Legal as ``precision``: weights are float32 under a mixed policy, so only the kernels change, to
more exact ones. That a loss curve stays where it was is proved all the same. Tried only where the
diagnosis saw the step gain: on a device without kernels for the policy that a script brought along.
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
        """float32, where the diagnosis saw it win."""
        full, policies = context.diagnosis.float32_speedup, context.workload.dtype_policies
        if full is None:
            return Skipped(reason="the model computes in float32, or was not measured in it")
        if "mixed_float16" in policies:
            return Skipped(
                reason="Keras scales the loss of mixed_float16, and in float32, where nothing"
                " overflows, it would double the scale for ever; leave the policy out yourself"
            )
        low = ", ".join(each for each in policies if each != "float32")
        return Proposal(
            edits=(DtypePolicy(policy="float32", code_digest=context.workload.step_code_digest),),
            predicted=context.diagnosis.speedup_with_faster_step(full.ratio),
            at=context.workload.dtype_policy_at or context.workload.at,
            rationale=f"float32 was seen to be faster than {low}",
            source_edit=f"leave out the dtype policy {low}",
        )
