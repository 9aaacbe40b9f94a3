"""Leave XLA out where it costs more than it gives.

XLA compiles for exact shapes: each new length of a batch is another compilation of the whole step,
of seconds to minutes. And where shapes are all the same its kernels need not be the faster ones. A
script may ask for it (``jit_compile=True``) because it was said to be faster; on a GPU Keras does
by itself (``"auto"``).

Legal as ``rounding``: the same mathematics on TensorFlow's own kernels, which round otherwise.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.base.machine import Machine
from uncork.core.costmodel.compile_time import compiling_of
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.step import JitCompileOff
from uncork.optimizations.base.preconditions import ends_unknown, no_function_edit, no_step_edit
from uncork.optimizations.base.proposal import (
    WORTH_TRYING,
    Optimization,
    Proposal,
    Skipped,
    not_worth,
)

# Ratio that kernels without XLA give at best where shapes are the same, taken as what XLA gives
# where it wins (see jit_compile): it only decides whether to look.
_AT_BEST: Final = 1.5
_SOURCES: Final = {
    "fit": "model.compile(..., jit_compile=False)",
    "custom_loop": "@tf.function(jit_compile=False)\ndef train_step(...):",
}


@final
class LeaveXla(Optimization):
    """Set ``jit_compile=False``."""

    name = "jit_compile_off"
    stage = "compile"
    guarantee = "rounding"

    def propose(
        self, diagnosis: WorkloadDiagnosis, machine: Machine, policy: Policy
    ) -> Proposal | Skipped:
        """Where compiling anew is what brakes; else where the kernels are worth a look."""
        del machine, policy
        work = diagnosis.workload
        if not work.jit_compile:
            return Skipped(reason="XLA is off already")
        in_loop = work.kind == "custom_loop"
        forbidden = no_function_edit(diagnosis) if in_loop else no_step_edit(diagnosis)
        forbidden = forbidden or ends_unknown(work)
        if forbidden:
            return forbidden
        compiling = next((f for f in diagnosis.findings if f.cause == "recompiling"), None)
        anew = compiling_of(diagnosis) if compiling else None
        possible = diagnosis.with_step_faster(_AT_BEST)
        if not anew and possible < WORTH_TRYING:
            return not_worth(possible)
        return Proposal(
            edits=(JitCompileOff(code=work.step_code),),
            predicted=anew.likely_gain() if anew else None,
            at=work.step_at or work.called_at or work.at,
            why="no shape is compiled anew" if anew else "TensorFlow's own kernels may be faster",
            source_edit=_SOURCES[work.kind],
        )
