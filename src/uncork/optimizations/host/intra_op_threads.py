"""Run each kernel on fewer threads, in a process that is started so.

TensorFlow cuts the work of one kernel into as many parts as there are cores. Of a small kernel the
parts are done sooner than handed out. Legal as ``exact`` where the parts are added up in the same
order, else ``rounding``: the proof compares weights. How many threads there are is settled when
TensorFlow begins, so it is tried in a process of its own, behind all other steps.
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

# Ratio at best: measured 0.9x to 1.9x on small models, on two cores; it only decides whether a
# process of its own is worth its time.
_AT_BEST: Final = 1.8
# Seconds of a step. Kernels of longer ones are worth to be shared.
_LONGEST: Final = 0.01


def _step_refusal(context: Context) -> str:
    return (loop_process_refusal if context.is_loop else step_edit_refusal)(context)


def _refusal(context: Context) -> str:
    work, machine = context.workload, context.machine
    reasons = {
        "the kernels run on an accelerator": machine.devices,
        "there is one core": machine.cpus < 2,
        f"set to {work.intra_op_threads} by the script already": work.intra_op_threads,
        "not tried under a tf.distribute strategy yet": work.is_distributed or work.replicas > 1,
        "fit is called for a few steps at a time": work.is_fit_in_loop,
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
        """Where steps are short, and kernels run on the host."""
        step_s = context.diagnosis.step_s * context.diagnosis.breakdown.get("step", 0.0)
        if step_s > _LONGEST:
            return Skipped(reason=f"a step computes for {step_s * 1e3:.0f} ms: threads share that")
        possible = context.diagnosis.speedup_with_faster_step(_AT_BEST)
        if not is_worth_trying(possible):
            return low_gain_refusal(possible)
        return Proposal(
            edits=(IntraOpThreads(threads=1),),
            predicted=None,
            at=context.workload.at,
            rationale="small kernels are computed sooner than shared among threads",
            source_edit="tf.config.threading.set_intra_op_parallelism_threads(1)  # first of all",
        )
