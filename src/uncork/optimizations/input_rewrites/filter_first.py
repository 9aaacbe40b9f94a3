"""Ask the filter first: what is dropped need not be decoded.

A filter by label or by length often stands at the end, where what it goes by is at hand, and all
that it drops has been read, decoded and resized before.

Legal where the maps below only pass on what the filter goes by (or cast, scale or reshape it), and
make each element by itself alone: then it drops the same elements before them as after them.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.step_cost import pass_rate, predict_gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import FilterFirst
from uncork.core.evidence.stage_graph import consecutive_stages
from uncork.optimizations.base.preconditions import pipeline_refusal
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
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
class FilterFirstOptimization(Optimization):
    """Put a filter below the maps that do no work for it."""

    name = "filter_first"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """The filter that spares most."""
        missing = pipeline_refusal(diagnosis)
        if missing:
            return missing
        pairs = consecutive_stages(diagnosis.stages)
        shares = {s: pass_rate(below, s) for below, s in pairs if s.bypassable_maps}
        if not shares:
            return Skipped(reason="no filter follows maps that do no work for it")
        costs = attribute_costs(diagnosis, machine.cpus)
        spared = {
            s: costs.with_stages_share(s.bypassable_maps, share or 1.0)
            for s, share in shares.items()
        }
        best = max(spared, key=lambda s: predict_gain(costs, spared[s]))
        predicted = predict_gain(costs, spared[best])
        if predicted < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(predicted)
        return Proposal(
            edits=(
                FilterFirst(stage=best.index, expected_digest=diagnosis.workload.pipeline_digest),
            ),
            predicted=predicted,
            at=best.at,
            rationale=(
                f"{1 - (shares[best] or 1.0):.0%} of the elements are dropped before they are "
                "made, and what would fail in the making of these does not"
            ),
            source_edit=_SOURCE.format(dropping=_BY_HAND[best.kind]),
        )
