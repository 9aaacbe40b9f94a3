"""Batch first, map then: a function called once for a whole batch instead of for each element.

Starting a function costs TensorFlow 10 to 50 microseconds, more than most parsing, casting and
looking up of one element does. TensorFlow has the rewrite (``map_vectorization``) no longer.

Legal because a function of one element alone commutes with whatever picks elements by position:
shuffle, repeat and the batch itself. Its ops are replaced one by one by those that do the same to
stacked elements. Where a function begins with ops that take one element only, reading and decoding
of files above all, it is cut behind them, and what follows is moved. Where a kernel adds up in
another order on longer rows, the promise is ``rounding``, and the proof tells how far apart the two
are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from uncork.core.costmodel.step_cost import predict_gain, stages_worth_vectorizing
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
    """Move maps above the batch, as far as that wins."""

    name = "vectorize"
    stage = "input"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """The maps below a batch, from the highest down, that are predicted to win most."""
        if not any(s.vectorized_cost for s in context.stages):
            return Skipped(reason="no map below a batch could take all of it at once")
        costs = context.costs
        chosen = stages_worth_vectorizing(costs)
        predicted = predict_gain(costs, costs.with_vectorized_stages(chosen))
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        full = shuffle_memory_refusal(context, chosen, _staying(context, chosen))
        if full:
            return full
        first, *others = chosen
        top = context.stages[first]
        # Moving one map leaves those below it where they were; the tree is another, though.
        edits = (
            VectorizeMap(stage=first, expected_digest=context.pipeline_digest),
            *(VectorizeMap(stage=stage, expected_digest="") for stage in others),
        )
        return Proposal(
            edits=edits,
            predicted=predicted,
            at=top.at,
            rationale=(
                f"{' and '.join(_name(context.stages[i]) for i in chosen)} called once for a "
                "whole batch"
            ),
            source_edit=_IN_PART if _staying(context, chosen) else _SOURCE,
        )


def _staying(context: Context, maps: Iterable[int]) -> dict[int, int]:
    """Of maps that are moved in part, bytes of an element of what stays before the batch."""
    found = {i: context.stages[i].vectorized_cost for i in maps}
    return {i: v.unbatched_bytes for i, v in found.items() if v and v.unbatched_bytes is not None}


def _name(stage: Stage) -> str:
    """Of a map, and where in it the part begins that is moved."""
    name = stage.name or "the map"
    behind = stage.vectorized_cost.unbatched_ops if stage.vectorized_cost else ()
    return f"{name}, what follows {' and '.join(behind)} in it," if behind else name
