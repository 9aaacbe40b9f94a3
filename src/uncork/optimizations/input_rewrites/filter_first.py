"""Ask the filter first: what is dropped need not be decoded.

A filter by label or by length often stands at the end, where what it goes by is at hand, and all
that it drops has been read, decoded and resized before.

Legal where the maps below only pass on what the filter goes by (or cast, scale or reshape it), and
make each element by itself alone: then it drops the same elements before them as after them.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import costs_of
from uncork.core.costmodel.step_cost import gain, passing
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import FilterFirst
from uncork.core.evidence.stage_graph import neighbours
from uncork.optimizations.base.preconditions import no_pipeline
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

_BY_HAND: Final = {
    "filter": "filter(predicate)  # on the label or the name",
    "shard": "shard(num_shards, index)",
    "skip": "skip(count)",
}
_SOURCE: Final = """\
dataset.{dropping}
       .map(load, num_parallel_calls=tf.data.AUTOTUNE)"""


@final
class FilterBeforeMaps(Optimization):
    """Put a filter below the maps that do no work for it."""

    name = "filter_first"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The filter that spares most."""
        missing = no_pipeline(diagnosis)
        if missing:
            return missing
        pairs = neighbours(diagnosis.stages)
        shares = {s: passing(below, s) for below, s in pairs if s.may_precede}
        if not shares:
            return Skipped(reason="no filter follows maps that do no work for it")
        costs = costs_of(diagnosis, machine.cpus)
        spared = {s: costs.spared(s.may_precede, share or 1.0) for s, share in shares.items()}
        best = max(spared, key=lambda s: gain(costs, spared[s]))
        predicted = gain(costs, spared[best])
        if predicted < WORTH_TRYING:
            return not_worth(predicted)
        return Proposal(
            edits=(FilterFirst(stage=best.index, expects=diagnosis.workload.pipeline),),
            predicted=predicted,
            at=best.at,
            why=(
                f"{1 - (shares[best] or 1.0):.0%} of the elements are dropped before they are "
                "made, and what would fail in the making of these does not"
            ),
            source_edit=_SOURCE.format(dropping=_BY_HAND[best.kind]),
        )
