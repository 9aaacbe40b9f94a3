"""Let several processes make the batches of a ``PyDataset`` that computes in Python.

Threads queue for the interpreter's lock there; processes have one each. They are forked from the
script's own, with the loader as it is then, at each epoch's first batch, and wherever an attribute
of it is set. Keras's threads ask them in the order of the batches, and hand those on as ever.

Legal only where the loader was seen to depend on its index alone, random numbers aside: what it
changed would be changed in a process that ends with the epoch. Where it draws, each batch is given
random states of its own: that is ``resampled``; where it does not, all is ``exact``. A process that
is forked has none of the threads of the one before, and whatever they had locked stays so: so the
loader's code may use Python's library, NumPy, PIL and pandas, and neither TensorFlow nor any other.
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

# Of memory, what a process has for itself: pages with counts of references, which it writes.
_OWN_BYTES: Final = 64 << 20
_SOURCE: Final = """\
super().__init__(workers={processes}, use_multiprocessing=True)  # in the loader's own __init__"""
_SEEDS: Final = """
# and seed what it draws from in each process, by os.getpid(): they begin with equal states"""


@final
class LoaderProcessesOptimization(Optimization):
    """Give a loader that holds the interpreter's lock processes of its own."""

    name = "loader_processes"
    stage = "input"
    guarantee = "exact"
    fallback_guarantee = "resampled"
    preconditions = (pydataset_refusal, workers_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """As many processes as there are cores."""
        loader = next(s for s in context.stages if s.kind == "pydataset")
        if loader.multiprocess_wall_s_per_element is None:
            return Skipped(
                reason="threads do as well, or the loader changes something, uses a library that "
                "may hang in a forked process, or takes less than 1 ms a batch"
            )
        costs = context.costs
        predicted = predict_gain(costs, costs.with_loader_processes(loader.index))
        if not is_worth_trying(predicted):
            return low_gain_refusal(predicted)
        processes = min(MAX_PROCESSES, math.ceil(context.machine.cpus))
        ahead = PREFETCHED_BATCHES_PER_WORKER * processes  # waiting, and as many that are asked for
        queued = (max(DEFAULT_QUEUE_BATCHES, ahead) + ahead) * (loader.bytes_per_element or 0)
        taken = queued + processes * _OWN_BYTES
        if taken > context.memory_budget_bytes:
            return Skipped(
                reason=f"processes and batches would take {taken / 1e9:.1f} GB of memory"
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
                f"{processes} processes make the batches of {loader.name or 'the loader'}, which "
                "computes in Python"
            ),
            source_edit=_SOURCE.format(processes=processes) + (_SEEDS if loader.is_random else ""),
        )
