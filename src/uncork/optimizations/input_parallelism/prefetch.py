"""Prepare the next batches while the device works on this one.

Legal because a buffer between producer and consumer changes neither elements nor order. Today's
tf.data injects one by itself (the ``inject_prefetch`` rewrite), unless the pipeline's options turn
its rewrites off: so this mostly finds nothing to do, and says so.
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
        """A prefetch where the pipeline does not end in one."""
        behind = [s for s in reversed(context.stages) if s.kind != "options"]
        if behind and behind[0].kind == "prefetch":
            return Skipped(reason="the pipeline ends in a prefetch already")
        if context.workload.has_default_rewrites:
            return Skipped(reason="TensorFlow injects a prefetch by itself")
        # Without overlap a step lasts as long as its input and its training together.
        overlapped = overlapped_step_s(context.diagnosis, context.machine.cpus)
        predicted = max(1.0, context.diagnosis.step_s / overlapped) if overlapped else 1.0
        return Proposal(
            edits=(Prefetch(expected_digest=context.pipeline_digest),),
            predicted=predicted,
            at=behind[0].at if behind else None,
            rationale="input and training overlap",
            source_edit="dataset.prefetch(tf.data.AUTOTUNE)",
        )
