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
from uncork.core.costmodel.attribution import costs_of
from uncork.core.costmodel.step_cost import StepCosts, gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import ParallelMap, SplitMap
from uncork.core.evidence.stage import Stage
from uncork.optimizations.base.preconditions import no_pipeline
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

_SOURCE: Final = """\
dataset.map(deterministic_part, num_parallel_calls=tf.data.AUTOTUNE)  # read, decode, resize
       .map(random_part)                                              # flips, crops, noise"""
_WHOLE: Final = "dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)"


@final
class ParallelizePrefix(Optimization):
    """Run the deterministic part of a serial map, or all of it, in parallel."""

    name = "parallelize_prefix"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The serial map whose deterministic part, or whole, is predicted to win most."""
        missing = no_pipeline(diagnosis)
        if missing:
            return missing
        candidates = [s for s in diagnosis.stages if s.parallelism == 1 and _is_exact(s)]
        if not candidates:
            return Skipped(reason="no serial map with a deterministic part")
        costs = costs_of(diagnosis, machine.cpus)
        gains = {s.index: gain(costs, _parallel(costs, s)) for s in candidates}
        best = max(candidates, key=lambda s: gains[s.index])
        if gains[best.index] < WORTH_TRYING:
            return not_worth(gains[best.index])
        return _proposal(diagnosis, best, gains[best.index])


def _is_exact(stage: Stage) -> bool:
    """Python is never run ahead of its turn; it may also not be safe on several threads."""
    return stage.prefix is not None or _is_whole(stage)


def _is_whole(stage: Stage) -> bool:
    return stage.kind == "map" and not (stage.random or stage.python or stage.prefix)


def _parallel(costs: StepCosts, stage: Stage) -> StepCosts:
    return costs.parallel(stage.index) if _is_whole(stage) else costs.split(stage.index)


def _proposal(diagnosis: WorkloadDiagnosis, stage: Stage, predicted: float) -> Proposal:
    name, expects = stage.name or "the map", diagnosis.workload.pipeline
    if stage.prefix is None:
        return Proposal(
            edits=(ParallelMap(stage=stage.index, expects=expects),),
            predicted=predicted,
            at=stage.at,
            why=f"{name}, which is deterministic, runs on several elements at once",
            source_edit=_WHOLE,
        )
    return Proposal(
        edits=(SplitMap(stage=stage.index, expects=expects),),
        predicted=predicted,
        at=stage.at,
        why=f"{stage.prefix.ops} deterministic ops of {name} run in parallel",
        source_edit=_SOURCE,
    )
