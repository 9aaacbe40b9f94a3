"""Let several threads compute the batches of a ``PyDataset``.

Keras's own threads (``PyDataset(workers=N)``) pass the batches on in their order, and shuffle as
one thread would. They help where the loader releases the interpreter lock: decoding, NumPy, files.

Legal only where Uncork saw that a batch depends on its index alone, apart from random numbers:
equal random states gave the same batch twice, and nothing that the code can reach changed
meanwhile. Threads may share what none of them changes. Where the loader uses random numbers, the
threads decide which batch gets which: that is ``resampled``; otherwise it is ``exact``.
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

# Batches, unless the loader sets another number: Keras's ``max_queue_size``.
DEFAULT_QUEUE_BATCHES: Final = 10
# Ratio. Processes that are predicted to be so much faster than threads are tried first.
_CLEAR_ADVANTAGE: Final = 1.2
_SOURCE: Final = "super().__init__(workers={workers})  # in the loader's own __init__"


def workers_refusal(context: Context) -> str:
    """Set when only the thread of the training may compute its batches."""
    work = context.workload
    if work.loader_workers > 1:
        return "the loader has workers already"
    if work.is_loader_cached:
        return "the batches are cached, so there is nothing left to compute"
    if work.has_explicit_steps:
        return "with steps_per_epoch, Keras restarts the workers at every epoch"
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
        """Propose as many threads as there are cores."""
        loader = next(s for s in context.stages if s.kind == "pydataset")
        if loader.threaded_wall_s_per_element is None:
            return Skipped(
                reason="a batch is not known to depend on its index and random numbers alone"
            )
        costs = context.costs
        predicted = predict_gain(costs, costs.with_loader_threads(loader.index))
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        in_processes = predict_gain(costs, costs.with_loader_processes(loader.index))
        workers = min(MAX_WORKERS, math.ceil(context.machine.cpus))
        # Those that Keras prefetches, and those in work.
        queued = (max(DEFAULT_QUEUE_BATCHES, PREFETCHED_BATCHES_PER_WORKER * workers) + workers) * (
            loader.bytes_per_element or 0
        )
        if queued > context.memory_budget_bytes:
            return Skipped(reason=f"prefetched batches would take {queued / 1e9:.1f} GB of memory")
        return Proposal(
            edits=(LoaderWorkers(workers=workers, expected_digest=context.workload.loader_digest),),
            predicted=predicted,
            at=loader.at,
            rationale=f"{workers} threads compute the batches of {loader.name or 'the loader'}",
            source_edit=_SOURCE.format(workers=workers),
            prerequisite="loader_processes" if in_processes > _CLEAR_ADVANTAGE * predicted else "",
        )
