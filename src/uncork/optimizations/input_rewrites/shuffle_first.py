"""Shuffle before the maps, so that names and bytes are in the buffer, not images.

A shuffle returns nothing before its buffer is full. After the maps, it decodes a whole buffer of
images while the training waits, at the start of every epoch, and keeps them all in memory.

Legal because a shuffle samples positions, whatever the elements are: a map of single elements gives
the same before it and after it. A repeat directly after the shuffle moves with it, because
TensorFlow fuses the two, and the fused stage samples differently from the two separate ones.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel.attribution import unexplained_cpu_s
from uncork.core.edits.pipeline import ShuffleFirst
from uncork.optimizations.base.preconditions import pipeline_refusal, shuffle_memory_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    is_worth_trying,
    low_gain_refusal,
)

_SOURCE: Final = """\
dataset.shuffle(n, ...)  # file names, indices, records
       .map(load, num_parallel_calls=tf.data.AUTOTUNE)"""


@final
class ShuffleFirstOptimization(Optimization):
    """Move a shuffle before the maps that precede it."""

    name = "shuffle_first"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the shuffle that the training waits for longest."""
        candidates = [s for s in context.stages if s.shuffle_buffer]
        if not candidates:
            return Skipped(reason="no shuffle follows maps that could follow it")
        costs = context.costs.without_unattributed_cpu(unexplained_cpu_s(context.diagnosis))
        best = max(candidates, key=lambda s: costs.shuffle_refill_step_s(s.index))
        step_s = costs.step_s()
        predicted = max(1.0, costs.shuffle_refill_step_s(best.index) / step_s) if step_s else 1.0
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        assert best.shuffle_buffer is not None
        refusal = shuffle_memory_refusal(context, best.shuffle_buffer.movable_maps)
        if refusal:
            return refusal
        return Proposal(
            edits=(ShuffleFirst(stage=best.index, expected_digest=context.pipeline_digest),),
            predicted=predicted,
            at=best.at,
            rationale=(
                f"the first batch no longer waits for {best.shuffle_buffer.element_count:,} "
                "elements"
            ),
            source_edit=_SOURCE,
        )
