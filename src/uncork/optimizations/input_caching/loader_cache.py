"""Make each batch of a ``PyDataset`` once, and keep it in memory.

Legal as ``exact`` only where the loader was seen to depend on its index alone, and nothing of the
user's runs between two epochs. In force, all that the loader can reach is digested before every
epoch; where anything of it has changed, the batches are made anew.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.edits.edit import LoaderCache
from uncork.optimizations.base.preconditions import explicit_steps_refusal, pydataset_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    memory_refusal,
)

_SOURCE: Final = "@functools.cache  # above __getitem__, or keep what it made in a dictionary"


def _refusal(context: Context) -> str:
    if context.workload.is_loader_cached:
        return "the batches are kept already"
    if context.workload.loader_workers > 1:
        return "the loader has workers"
    if context.workload.has_explicit_steps:
        return explicit_steps_refusal(context)
    return "one epoch only: nothing is read twice" if context.workload.epochs < 2 else ""


@final
class LoaderCacheOptimization(Optimization):
    """Keep what a Python loader makes."""

    name = "loader_cache"
    stage = "input"
    guarantee = "exact"
    preconditions = (pydataset_refusal, _refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """All batches, where they fit the memory budget."""
        loader = next(s for s in context.stages if s.kind == "pydataset")
        if loader.memoization is None:
            return Skipped(reason="the batches were not seen to be the same in every epoch")
        needed, budget = loader.memoization.total_bytes, context.memory_budget_bytes
        if needed > budget:
            return memory_refusal(needed, budget)
        costs = context.costs
        predicted = predict_gain(costs, costs.with_memoized_stage(loader.index))
        return Proposal(
            edits=(LoaderCache(size_bytes=needed, expected_digest=context.workload.loader_digest),),
            predicted=predicted,
            at=loader.at,
            rationale=f"each batch is made once and kept in {needed / 1e9:.3g} GB of memory",
            source_edit=_SOURCE,
        )
