"""Run the deterministic part of a map in parallel, and its random part as before.

TensorFlow parallelizes a bare ``map`` only if its function is stateless (``map_parallelization`` in
tf.data's default graph rewrites); one ``tf.image.random_*`` keeps all of it on one thread. So does
a look-up in a table, or ``num_parallel_calls=1``: such a map is deterministic as a whole, and
nothing of it has to stay serial.

Legal because ops that neither are stateful nor depend on a stateful op give the same values on any
thread, and ``deterministic=True`` keeps the order of elements. The random rest stays serial: it
samples the same numbers in the same order as before.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel.step_cost import StepCosts
from uncork.core.edits.pipeline import ParallelMap, SplitMap
from uncork.core.evidence.stage import Stage
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import Context, Optimization, Proposal, Skipped, best_gain

_SOURCE: Final = """\
dataset.map(deterministic_part, num_parallel_calls=tf.data.AUTOTUNE)  # read, decode, resize
       .map(random_part)                                              # flips, crops, noise"""
_WHOLE: Final = "dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)"


@final
class ParallelizePrefixOptimization(Optimization):
    """Run the deterministic part of a serial map, or all of it, in parallel."""

    name = "parallelize_prefix"
    stage = "input"
    guarantee = "exact"
    preconditions = (pipeline_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Select the serial map whose deterministic part, or whole, has the largest gain."""
        candidates = [s for s in context.stages if s.parallelism == 1 and _is_exact(s)]
        if not candidates:
            return Skipped(reason="no serial map with a deterministic part")
        costs = context.costs
        best, predicted = best_gain(costs, candidates, lambda s: _parallel(costs, s))
        name, expected = best.name or "the map", context.pipeline_digest
        if best.deterministic_prefix is None:
            return Proposal(
                edits=(ParallelMap(stage=best.index, expected_digest=expected),),
                predicted=predicted,
                at=best.at,
                rationale=f"{name}, which is deterministic, runs on several elements in parallel",
                source_edit=_WHOLE,
            )
        return Proposal(
            edits=(SplitMap(stage=best.index, expected_digest=expected),),
            predicted=predicted,
            at=best.at,
            rationale=(
                f"{best.deterministic_prefix.op_count} deterministic ops of {name} run in parallel"
            ),
            source_edit=_SOURCE,
        )


def _is_exact(stage: Stage) -> bool:
    """Python never runs out of order; it may also not be safe on several threads."""
    return stage.deterministic_prefix is not None or _is_whole(stage)


def _is_whole(stage: Stage) -> bool:
    return stage.kind == "map" and not (
        stage.is_random or stage.has_python_code or stage.deterministic_prefix
    )


def _parallel(costs: StepCosts, stage: Stage) -> StepCosts:
    return (
        costs.with_parallel_stage(stage.index)
        if _is_whole(stage)
        else costs.with_split_stage(stage.index)
    )
