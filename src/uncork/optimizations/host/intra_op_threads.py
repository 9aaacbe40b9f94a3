"""Run each kernel on fewer threads, in a process of its own.

TensorFlow splits the work of a kernel into as many parts as there are cores. Computing the parts of
a small kernel takes less time than distributing them. Legal as ``exact`` where the parts are summed
in the same order, else ``rounding``: the proof compares weights. TensorFlow fixes the number of
threads when it starts, so Uncork tries this in a process of its own, after all other optimizations.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.edit import IntraOpThreads
from uncork.optimizations.base.preconditions import loop_process_refusal, step_edit_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    first_holding,
    is_worth_trying,
    low_gain_refusal,
)

# Largest speed-up: measured 0.9x to 1.9x on small models, on two cores; it only decides whether
# to try.
_MAX_SPEEDUP: Final = 1.8
# Seconds. Kernels of longer steps should be shared among threads.
_MAX_STEP_S: Final = 0.01


def _step_refusal(context: Context) -> str:
    return (loop_process_refusal if context.is_loop else step_edit_refusal)(context)


def _refusal(context: Context) -> str:
    work, machine = context.workload, context.machine
    reasons = {
        "the kernels run on an accelerator": machine.devices,
        "there is one core only": machine.cpus < 2,
        f"the script sets {work.intra_op_threads} threads already": work.intra_op_threads,
        "not tried under a tf.distribute strategy yet": work.is_distributed or work.replicas > 1,
        "each call of fit runs a few steps only": work.is_fit_in_loop,
    }
    return first_holding(reasons)


@final
class IntraOpThreadsOptimization(Optimization):
    """Start the script with one thread for the work within a kernel."""

    name = "intra_op_threads"
    stage = "host"
    guarantee = "exact"
    fallback_guarantee = "rounding"
    needs_own_process = True
    preconditions = (_step_refusal, _refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Propose it where steps are short and kernels run on the host."""
        step_s = context.diagnosis.step_s * context.diagnosis.breakdown.get("step", 0.0)
        if step_s > _MAX_STEP_S:
            return Skipped(
                reason=f"a step computes for {step_s * 1e3:.0f} ms, which threads should share"
            )
        possible = context.diagnosis.speedup_with_faster_step(_MAX_SPEEDUP)
        if not is_worth_trying(possible):
            return low_gain_refusal(possible)
        return Proposal(
            edits=(IntraOpThreads(threads=1),),
            predicted=None,
            at=context.workload.at,
            rationale="small kernels run faster on one thread than shared among threads",
            source_edit="tf.config.threading.set_intra_op_parallelism_threads(1)  # first of all",
        )
