"""Prepare the next batches while the device computes on this one.

Legal because a buffer between producer and consumer changes neither elements nor order. tf.data
injects one by default (the ``inject_prefetch`` rewrite), unless options of the pipeline turn its
rewrites off. So this optimization mostly has nothing to do, and says so.
"""

from __future__ import annotations

from typing import final

from uncork.core.costmodel.attribution import overlapped_step_s
from uncork.core.edits.pipeline import Prefetch
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped


@final
class PrefetchOptimization(Optimization):
    """End the pipeline with ``prefetch(AUTOTUNE)``."""

    name = "prefetch"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Add a prefetch where the pipeline does not end with one."""
        stages = [s for s in reversed(context.stages) if s.kind != "options"]
        if stages and stages[0].kind == "prefetch":
            return Skipped(reason="the pipeline ends with a prefetch already")
        if context.workload.has_default_rewrites:
            return Skipped(reason="TensorFlow injects a prefetch automatically")
        # Without overlap a step lasts as long as its input plus its training.
        overlapped = overlapped_step_s(context.diagnosis, context.machine.cpus)
        predicted = max(1.0, context.diagnosis.step_s / overlapped) if overlapped else 1.0
        return Proposal(
            edits=(Prefetch(expected_digest=context.pipeline_digest),),
            predicted=predicted,
            at=stages[0].at if stages else None,
            rationale="input and training overlap",
            source_edit="dataset.prefetch(tf.data.AUTOTUNE)",
        )
