"""Batch first, map then: a function called once for a whole batch instead of for each element.

Starting a function costs TensorFlow 10 to 50 microseconds, more than most parsing, casting and
looking up of one element does. TensorFlow has the rewrite (``map_vectorization``) no longer.

Legal because a function of one element alone commutes with whatever picks elements by position:
shuffle, repeat and the batch itself. Its ops are replaced one by one by those that do the same to
stacked elements. Where a kernel adds up in another order on longer rows, the promise is
``rounding``, and the proof tells how far apart the two are.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.attribution import costs_of
from uncork.core.costmodel import gain, worth_vectorizing
from uncork.core.diagnosis import WorkloadDiagnosis
from uncork.core.edit import VectorizeMap
from uncork.core.machine import Machine
from uncork.core.plan import Policy
from uncork.road.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    no_pipeline,
    no_room,
    not_worth,
)

_SOURCE: Final = """\
dataset.shuffle(...).batch(n)
       .map(function_of_a_batch, num_parallel_calls=tf.data.AUTOTUNE)"""


@final
class VectorizeMaps(Optimization):
    """Move maps above the batch, as far as that wins."""

    name = "vectorize"
    stage = "input"
    guarantee = "exact"
    at_worst = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The maps below a batch, from the highest down, that are predicted to win most."""
        missing = no_pipeline(diagnosis)
        if missing:
            return missing
        if not any(s.vectorized for s in diagnosis.stages):
            return Skipped(reason="no map below a batch could take all of it at once")
        costs = costs_of(diagnosis, machine.cpus)
        chosen = worth_vectorizing(costs)
        predicted = gain(costs, costs.vectorized(chosen))
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        full = no_room(diagnosis, policy, chosen)
        if full:
            return full
        first, *others = chosen
        top = diagnosis.stages[first]
        # Moving one map leaves those below it where they were; the tree is another, though.
        edits = (
            VectorizeMap(stage=first, expects=diagnosis.workload.pipeline),
            *(VectorizeMap(stage=stage, expects="") for stage in others),
        )
        names = " and ".join(diagnosis.stages[i].name or "the map" for i in chosen)
        return Proposal(
            edits=edits,
            predicted=predicted,
            at=top.at,
            why=f"{names} called once for a whole batch",
            source_edit=_SOURCE,
        )
