"""Compute each batch of a ``PyDataset`` once, and cache it in memory.

Legal as ``exact`` only where Uncork saw that a batch depends on its index alone, and no code of the
user runs between two epochs. In a plan, Uncork compares a digest of all that the loader can reach
before every epoch. If anything changes, the loader computes the batches again.
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

_SOURCE: Final = "@functools.cache  # above __getitem__, or store the batches in a dictionary"


def _refusal(context: Context) -> str:
    if context.workload.is_loader_cached:
        return "the batches are cached already"
    if context.workload.loader_workers > 1:
        return "the loader has workers already"
    if context.workload.has_explicit_steps:
        return explicit_steps_refusal(context)
    return "one epoch only: nothing is read twice" if context.workload.epochs < 2 else ""


@final
class LoaderCacheOptimization(Optimization):
    """Cache the batches of a Python loader."""

    name = "loader_cache"
    stage = "input"
    guarantee = "exact"
    preconditions = (pydataset_refusal, _refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Cache all batches if they fit the memory budget."""
        loader = next(s for s in context.stages if s.kind == "pydataset")
        if loader.memoization is None:
            return Skipped(reason="the batches are not known to be the same in every epoch")
        needed, budget = loader.memoization.total_bytes, context.memory_budget_bytes
        if needed > budget:
            return memory_refusal(needed, budget)
        costs = context.costs
        predicted = predict_gain(costs, costs.with_memoized_stage(loader.index))
        return Proposal(
            edits=(LoaderCache(size_bytes=needed, expected_digest=context.workload.loader_digest),),
            predicted=predicted,
            at=loader.at,
            rationale=f"each batch is computed once and cached in {needed / 1e9:.3g} GB of memory",
            source_edit=_SOURCE,
        )
