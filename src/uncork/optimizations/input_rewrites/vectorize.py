"""Batch first, then map: one call of the function for a whole batch, not for each element.

A call of a function costs TensorFlow 10 to 50 microseconds, more than parsing, casting or looking
up one element usually takes. TensorFlow no longer has this rewrite (``map_vectorization``).

Legal because a function of single elements commutes with stages that select elements by position:
shuffle, repeat and batch. Uncork replaces each op by one that does the same to stacked elements.
Where a function starts with ops that take one element only, above all reading and decoding of
files, Uncork splits it after them and moves the rest. Where a kernel sums longer rows in another
order, the guarantee is ``rounding``, and the proof compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.costmodel.worthwhile_stages import stages_worth_vectorizing
from uncork.core.edits.pipeline import VectorizeMap
from uncork.core.evidence.stage import Stage
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
dataset.shuffle(...).batch(n)
       .map(function_of_a_batch, num_parallel_calls=tf.data.AUTOTUNE)"""
_IN_PART: Final = """\
dataset.map(read_and_decode, num_parallel_calls=tf.data.AUTOTUNE).shuffle(...).batch(n)
       .map(rest_for_a_batch, num_parallel_calls=tf.data.AUTOTUNE)"""


@final
class VectorizeOptimization(Optimization):
    """Move maps after the batch, as far as that is faster."""

    name = "vectorize"
    stage = "input"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the maps before a batch, from the last one back, with the largest gain."""
        if not any(s.vectorized_cost for s in context.stages):
            return Skipped(reason="no map before a batch could process whole batches")
        costs = context.costs
        chosen = stages_worth_vectorizing(costs)
        predicted = predict_gain(costs, costs.with_vectorized_stages(chosen))
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        refusal = shuffle_memory_refusal(context, chosen, _unbatched_bytes(context, chosen))
        if refusal:
            return refusal
        first, *others = chosen
        top = context.stages[first]
        # Moving a map keeps the indices of the maps before it, but changes the digest.
        edits = (
            VectorizeMap(stage=first, expected_digest=context.pipeline_digest),
            *(VectorizeMap(stage=stage, expected_digest="") for stage in others),
        )
        return Proposal(
            edits=edits,
            predicted=predicted,
            at=top.at,
            rationale=(
                f"TensorFlow calls {' and '.join(_name(context.stages[i]) for i in chosen)} once "
                "for a whole batch"
            ),
            source_edit=_IN_PART if _unbatched_bytes(context, chosen) else _SOURCE,
        )


def _unbatched_bytes(context: Context, maps: Iterable[int]) -> dict[int, int]:
    """Of maps that are moved in part, bytes of an element before the batch."""
    vectorized = {i: context.stages[i].vectorized_cost for i in maps}
    return {
        i: v.unbatched_bytes for i, v in vectorized.items() if v and v.unbatched_bytes is not None
    }


def _name(stage: Stage) -> str:
    """Name a map, and where its moved part starts."""
    name = stage.name or "the map"
    single_ops = stage.vectorized_cost.unbatched_ops if stage.vectorized_cost else ()
    return f"{name}, what follows {' and '.join(single_ops)} in it," if single_ops else name
