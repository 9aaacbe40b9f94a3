"""Shuffle what is small, then make it large: names and bytes wait in the buffer, not pictures.

A shuffle gives nothing before its buffer is full. Behind the maps, that means decoding as many
pictures as it holds while the training waits, at the start of every epoch, and holding them all.

Legal because a shuffle draws positions, whatever stands there: a map of each element alone gives
the same before it and after it. A repeat directly above it comes along, because TensorFlow fuses
the two, and the fused one draws otherwise than the two apart.
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
    """Put a shuffle below the maps that it follows."""

    name = "shuffle_first"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """The shuffle whose filling holds the training up most."""
        candidates = [s for s in context.stages if s.shuffle_buffer]
        if not candidates:
            return Skipped(reason="no shuffle follows maps that could as well follow it")
        costs = context.costs.without_unattributed_cpu(unexplained_cpu_s(context.diagnosis))
        best = max(candidates, key=lambda s: costs.shuffle_refill_step_s(s.index))
        alone = costs.step_s()
        predicted = max(1.0, costs.shuffle_refill_step_s(best.index) / alone) if alone else 1.0
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        assert best.shuffle_buffer is not None
        full = shuffle_memory_refusal(context, best.shuffle_buffer.movable_maps)
        if full:
            return full
        return Proposal(
            edits=(ShuffleFirst(stage=best.index, expected_digest=context.pipeline_digest),),
            predicted=predicted,
            at=best.at,
            rationale=(
                f"{best.shuffle_buffer.element_count:,} elements need not be made before the "
                "first batch"
            ),
            source_edit=_SOURCE,
        )
