"""Un-serialise a map: its deterministic part in parallel, its random part as before.

TensorFlow parallelises a bare ``map`` only when the function is stateless (``map_parallelization``
in tf.data's default graph rewrites); one ``tf.image.random_*`` keeps all of it on one thread. So
does a lookup in a table, or a ``num_parallel_calls=1`` that was copied from somewhere: such a map
is deterministic as a whole, and nothing of it stays serial.

Legal because ops that neither are stateful nor depend on a stateful op give the same values on any
thread, ``deterministic=True`` keeps the order of elements, and the random rest stays serial: it
draws the same numbers, in the same order, as before.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.step_cost import StepCosts, predict_gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import ParallelMap, SplitMap
from uncork.core.evidence.stage import Stage
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)

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

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The serial map whose deterministic part, or whole, is predicted to win most."""
        missing = pipeline_refusal(diagnosis)
        if missing:
            return missing
        candidates = [s for s in diagnosis.stages if s.parallelism == 1 and _is_exact(s)]
        if not candidates:
            return Skipped(reason="no serial map with a deterministic part")
        costs = attribute_costs(diagnosis, machine.cpus)
        gains = {s.index: predict_gain(costs, _parallel(costs, s)) for s in candidates}
        best = max(candidates, key=lambda s: gains[s.index])
        if gains[best.index] < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(gains[best.index])
        return _proposal(diagnosis, best, gains[best.index])


def _is_exact(stage: Stage) -> bool:
    """Python is never run ahead of its turn; it may also not be safe on several threads."""
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


def _proposal(diagnosis: WorkloadDiagnosis, stage: Stage, predicted: float) -> Proposal:
    name, expects = stage.name or "the map", diagnosis.workload.pipeline_digest
    if stage.deterministic_prefix is None:
        return Proposal(
            edits=(ParallelMap(stage=stage.index, expected_digest=expects),),
            predicted=predicted,
            at=stage.at,
            rationale=f"{name}, which is deterministic, runs on several elements at once",
            source_edit=_WHOLE,
        )
    return Proposal(
        edits=(SplitMap(stage=stage.index, expected_digest=expects),),
        predicted=predicted,
        at=stage.at,
        rationale=(
            f"{stage.deterministic_prefix.op_count} deterministic ops of {name} run in parallel"
        ),
        source_edit=_SOURCE,
    )
