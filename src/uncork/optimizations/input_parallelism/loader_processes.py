"""Let several processes compute the batches of a ``PyDataset`` that computes in Python.

Threads queue for the interpreter lock; each process has its own. Uncork forks them from the
script's process, with the loader as it is then, at the first batch of each epoch and after each
change of an attribute of the loader. Keras's threads call them in the order of the batches, and
pass the batches on as always.

Legal only where Uncork saw that a batch depends on its index alone, apart from random numbers: a
change of state would happen in a process that ends with the epoch. Where the loader uses random
numbers, each batch gets random states of its own: that is ``resampled``; otherwise it is ``exact``.
A forked process has none of the threads of its parent, and their locks stay locked. So the code of
the loader may use Python's library, NumPy, PIL and pandas, but not TensorFlow or any other library.
"""

from __future__ import annotations

import math
from typing import Final, final

from uncork.core.costmodel.step_cost import predict_gain
from uncork.core.edits.edit import MAX_PROCESSES, PREFETCHED_BATCHES_PER_WORKER, LoaderProcesses
from uncork.optimizations.base.preconditions import pydataset_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    is_worth_trying,
    low_gain_refusal,
)
from uncork.optimizations.input_parallelism.loader_workers import (
    DEFAULT_QUEUE_BATCHES,
    workers_refusal,
)

# Bytes of memory of each process: pages with reference counts, which it writes.
_OWN_BYTES: Final = 64 << 20
_SOURCE: Final = """\
super().__init__(workers={processes}, use_multiprocessing=True)  # in the loader's own __init__"""
_SEEDS: Final = """
# and seed its random generators in each process, by os.getpid(): they start with equal states"""


@final
class LoaderProcessesOptimization(Optimization):
    """Give a loader that holds the interpreter lock processes of its own."""

    name = "loader_processes"
    stage = "input"
    guarantee = "exact"
    fallback_guarantee = "resampled"
    preconditions = (pydataset_refusal, workers_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose as many processes as there are cores."""
        loader = next(s for s in context.stages if s.kind == "pydataset")
        if loader.multiprocess_wall_s_per_element is None:
            return Skipped(
                reason="threads are as fast, or the loader changes state, uses a library that "
                "may hang in a forked process, or takes less than 1 ms a batch"
            )
        costs = context.costs
        predicted = predict_gain(costs, costs.with_loader_processes(loader.index))
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        processes = min(MAX_PROCESSES, math.ceil(context.machine.cpus))
        ahead = PREFETCHED_BATCHES_PER_WORKER * processes  # queued, and as many in work
        queued = (max(DEFAULT_QUEUE_BATCHES, ahead) + ahead) * (loader.bytes_per_element or 0)
        needed = queued + processes * _OWN_BYTES
        if needed > context.memory_budget_bytes:
            return Skipped(
                reason=f"processes and batches would take {needed / 1e9:.1f} GB of memory"
            )
        return Proposal(
            edits=(
                LoaderProcesses(
                    processes=processes,
                    expected_digest=context.workload.loader_digest,
                    is_random=loader.is_random,
                ),
            ),
            predicted=predicted,
            at=loader.at,
            rationale=(
                f"{processes} processes compute the batches of {loader.name or 'the loader'}, "
                "which runs Python code"
            ),
            source_edit=_SOURCE.format(processes=processes) + (_SEEDS if loader.is_random else ""),
        )
