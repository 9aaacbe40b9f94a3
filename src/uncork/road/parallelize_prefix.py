"""Un-serialise a map: its deterministic part in parallel, its random part as before.

TensorFlow parallelises a bare ``map`` only when the function is stateless (``map_parallelization``
in tf.data's default graph rewrites); one ``tf.image.random_*`` keeps all of it on one thread.

Legal because ops that neither are stateful nor depend on a stateful op give the same values on any
thread, ``deterministic=True`` keeps the order of elements, and the random rest stays serial: it
draws the same numbers, in the same order, as before.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel import costs_of, gain
from uncork.core.diagnosis import WorkloadDiagnosis
from uncork.core.edit import SplitMap
from uncork.core.machine import Machine
from uncork.core.plan import Policy
from uncork.core.stage import Stage
from uncork.road.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    no_pipeline,
    not_worth,
)

_SOURCE: Final = """\
dataset.map(deterministic_part, num_parallel_calls=tf.data.AUTOTUNE)  # read, decode, resize
       .map(random_part)                                              # flips, crops, noise"""


@final
class ParallelizePrefix(Optimization):
    """Run the deterministic prefix of a serial random map in parallel."""

    name = "parallelize_prefix"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The serial map whose split is predicted to win most."""
        missing = no_pipeline(diagnosis)
        if missing:
            return missing
        candidates = [s for s in diagnosis.stages if s.parallelism == 1 and s.prefix]
        if not candidates:
            return Skipped(reason="no serial map with a deterministic part")
        costs = costs_of(diagnosis, machine.cpus)
        best = max(candidates, key=lambda s: gain(costs, costs.split(s.index)))
        predicted = gain(costs, costs.split(best.index))
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        return _proposal(diagnosis, best, predicted)


def _proposal(diagnosis: WorkloadDiagnosis, stage: Stage, predicted: float) -> Proposal:
    assert stage.prefix is not None
    return Proposal(
        edits=(SplitMap(stage=stage.index, expects=diagnosis.workload.pipeline),),
        predicted=predicted,
        at=stage.at,
        why=f"{stage.prefix.ops} deterministic ops of {stage.name or 'the map'} run in parallel",
        source_edit=_SOURCE,
    )
