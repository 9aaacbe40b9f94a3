"""Let several threads make the batches of a ``PyDataset``.

Keras's own threads (``PyDataset(workers=N)``) hand the batches over in their order, and shuffle as
one thread would. They pay where the loader leaves the interpreter: decoding, NumPy, files.

Legal only where the loader was seen to depend on its index alone, random numbers aside: the same
batch twice from equal random states, and nothing that its code can reach changed meanwhile. What
nobody changes, threads may share. Where it draws, which batch gets which draw is left to the
threads: that is ``resampled``; where it does not, all is ``exact``.
"""

from __future__ import annotations

import math
from typing import Final, final

from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.edits.edit import MAX_WORKERS, PREFETCHED_BATCHES_PER_WORKER, LoaderWorkers
from uncork.optimizations.base.preconditions import pydataset_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    is_worth_trying,
    low_gain_refusal,
)

# Batches, where the loader asks for no other number: Keras's ``max_queue_size``.
DEFAULT_QUEUE_BATCHES: Final = 10
# What processes must be predicted to win beyond threads to be tried first.
_CLEARLY: Final = 1.2
_SOURCE: Final = "super().__init__(workers={workers})  # in the loader's own __init__"


def workers_refusal(context: Context) -> str:
    """Why nothing but the training's own thread is to make its batches; ``""`` where it may."""
    work = context.workload
    if work.loader_workers > 1:
        return "the loader has workers already"
    if work.is_loader_cached:
        return "the batches are kept, there is nothing left to make"
    if work.has_explicit_steps:
        return "with steps_per_epoch, Keras lets workers begin anew at every epoch"
    return ""


@final
class LoaderWorkersOptimization(Optimization):
    """Give a Python loader workers."""

    name = "loader_workers"
    stage = "input"
    guarantee = "exact"
    fallback_guarantee = "resampled"
    preconditions = (pydataset_refusal, workers_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """As many threads as there are cores."""
        loader = next(s for s in context.stages if s.kind == "pydataset")
        if loader.threaded_wall_s_per_element is None:
            return Skipped(
                reason="the loader was not seen to depend on its index, and on random draws, alone"
            )
        costs = context.costs
        predicted = predict_gain(costs, costs.with_loader_threads(loader.index))
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        in_processes = predict_gain(costs, costs.with_loader_processes(loader.index))
        workers = min(MAX_WORKERS, math.ceil(context.machine.cpus))
        # As many as Keras makes ahead, and those that are being made.
        queued = (max(DEFAULT_QUEUE_BATCHES, PREFETCHED_BATCHES_PER_WORKER * workers) + workers) * (
            loader.bytes_per_element or 0
        )
        if queued > context.memory_budget_bytes:
            return Skipped(reason=f"batches made ahead would take {queued / 1e9:.1f} GB of memory")
        return Proposal(
            edits=(LoaderWorkers(workers=workers, expected_digest=context.workload.loader_digest),),
            predicted=predicted,
            at=loader.at,
            rationale=f"{workers} threads make the batches of {loader.name or 'the loader'}",
            source_edit=_SOURCE.format(workers=workers),
            prerequisite="loader_processes" if in_processes > _CLEARLY * predicted else "",
        )
