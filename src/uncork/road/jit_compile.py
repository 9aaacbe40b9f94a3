"""Compile the training step with XLA.

Legal as ``rounding``: XLA fuses kernels and reorders sums, which changes the last bits. Layers with
their own random numbers may draw others under XLA; the proof then fails and the step is refused.
Judged on time to finish: compiling takes seconds to minutes, and a new shape compiles again.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.diagnosis import WorkloadDiagnosis
from uncork.core.edit import JitCompile
from uncork.core.machine import Machine
from uncork.core.plan import Policy
from uncork.road.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    no_step_edit,
    not_worth,
)

# Ratio that fusing kernels gives at best, from published XLA results on convolutional and dense
# models (1.1x to 1.5x); it only decides whether compiling is worth its time.
_AT_BEST: Final = 1.5


@final
class CompileStep(Optimization):
    """Set ``jit_compile=True``."""

    name = "jit_compile"
    stage = "compile"
    guarantee = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """XLA, where the kernels take a good part of the step."""
        forbidden = no_step_edit(diagnosis)
        if forbidden:
            return forbidden
        if diagnosis.workload.jit_compile:
            return Skipped(reason="compiled with XLA already")
        possible = diagnosis.with_step_faster(_AT_BEST)
        if possible < WORTH_TRYING:
            return not_worth(possible)
        return Proposal(
            edits=(JitCompile(),),
            predicted=None,
            at=diagnosis.workload.at,
            why="kernels are fused",
            source_edit="model.compile(..., jit_compile=True)",
        )
