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

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of
from uncork.core.costmodel.step_cost import gain, worth_vectorizing
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import VectorizeMap
from uncork.core.evidence.stage import Stage
from uncork.optimizations.base.preconditions import no_pipeline, no_room
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

_SOURCE: Final = """\
dataset.shuffle(...).batch(n)
       .map(function_of_a_batch, num_parallel_calls=tf.data.AUTOTUNE)"""
_IN_PART: Final = """\
dataset.map(read_and_decode, num_parallel_calls=tf.data.AUTOTUNE).shuffle(...).batch(n)
       .map(rest_for_a_batch, num_parallel_calls=tf.data.AUTOTUNE)"""


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
        full = no_room(diagnosis, policy, chosen, _staying(diagnosis, chosen))
        if full:
            return full
        first, *others = chosen
        top = diagnosis.stages[first]
        # Moving one map leaves those below it where they were; the tree is another, though.
        edits = (
            VectorizeMap(stage=first, expects=diagnosis.workload.pipeline),
            *(VectorizeMap(stage=stage, expects="") for stage in others),
        )
        return Proposal(
            edits=edits,
            predicted=predicted,
            at=top.at,
            why=f"{' and '.join(_name(diagnosis.stages[i]) for i in chosen)} called once for a "
            "whole batch",
            source_edit=_IN_PART if _staying(diagnosis, chosen) else _SOURCE,
        )


def _staying(diagnosis: WorkloadDiagnosis, maps: Iterable[int]) -> dict[int, int]:
    """Of maps that are moved in part, bytes of an element of what stays before the batch."""
    found = {i: diagnosis.stages[i].vectorized for i in maps}
    return {i: v.first_bytes for i, v in found.items() if v and v.first_bytes is not None}


def _name(stage: Stage) -> str:
    """Of a map, and where in it the part begins that is moved."""
    name = stage.name or "the map"
    behind = stage.vectorized.behind if stage.vectorized else ()
    return f"{name}, what follows {' and '.join(behind)} in it," if behind else name
