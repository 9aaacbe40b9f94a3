"""Make each batch of a ``PyDataset`` once, and keep it in memory.

Legal as ``exact`` only where the loader was seen to depend on its index alone, and nothing of the
user's runs between two epochs. In force, all that the loader can reach is digested before every
epoch; where anything of it has changed, the batches are made anew.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.attribution import attribute_costs
from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.edit import LoaderCache
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)

_SOURCE: Final = "@functools.cache  # above __getitem__, or keep what it made in a dictionary"


@final
class LoaderCacheOptimization(Optimization):
    """Keep what a Python loader makes."""

    name = "loader_cache"
    stage = "input"
    guarantee = "exact"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """All batches, where they fit the memory budget."""
        loader = next((s for s in diagnosis.stages if s.kind == "pydataset"), None)
        skipped = _skipped(diagnosis)
        if loader is None:
            return Skipped(reason=f"fed by {diagnosis.workload.data_kind}, not by a PyDataset")
        if skipped:
            return Skipped(reason=skipped)
        if loader.memoization is None:
            return Skipped(reason="the batches were not seen to be the same in every epoch")
        room = policy.memory_share * diagnosis.memory_available_bytes
        needed = loader.memoization.total_bytes
        if needed > room:
            return Skipped(
                reason=f"needs {needed / 1e9:.1f} GB of memory, the budget is {room / 1e9:.1f} GB"
            )
        costs = attribute_costs(diagnosis, machine.cpus)
        predicted = predict_gain(costs, costs.with_memoized_stage(loader.index))
        if predicted < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(predicted)
        return Proposal(
            edits=(
                LoaderCache(size_bytes=needed, expected_digest=diagnosis.workload.loader_digest),
            ),
            predicted=predicted,
            at=loader.at,
            rationale=f"each batch is made once and kept in {needed / 1e9:.3g} GB of memory",
            source_edit=_SOURCE,
        )


def _skipped(diagnosis: WorkloadDiagnosis) -> str:
    if diagnosis.workload.is_loader_cached:
        return "the batches are kept already"
    if diagnosis.workload.loader_workers > 1:
        return "the loader has workers"
    if diagnosis.workload.has_explicit_steps:
        return "with steps_per_epoch an epoch need not begin where the data does"
    return "one epoch only: nothing is read twice" if diagnosis.workload.epochs < 2 else ""
