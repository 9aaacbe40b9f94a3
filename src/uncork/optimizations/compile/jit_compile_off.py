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
from uncork.core.costmodel.compile_time import estimate_compile_time
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.documents.plan import Policy
from uncork.core.edits.step import JitCompileOff
from uncork.optimizations.base.preconditions import (
    function_edit_refusal,
    step_edit_refusal,
    unknown_length_refusal,
)
from uncork.optimizations.base.proposal import (
    MIN_PREDICTED_SPEEDUP,
    Optimization,
    Proposal,
    Skipped,
    low_gain_refusal,
)

# Ratio that kernels without XLA give at best where shapes are the same, taken as what XLA gives
# where it wins (see jit_compile): it only decides whether to look.
_AT_BEST: Final = 1.5
_SOURCES: Final = {
    "fit": "model.compile(..., jit_compile=False)",
    "custom_loop": "@tf.function(jit_compile=False)\ndef train_step(...):",
}


@final
class JitCompileOffOptimization(Optimization):
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
        forbidden = function_edit_refusal(diagnosis) if in_loop else step_edit_refusal(diagnosis)
        forbidden = forbidden or unknown_length_refusal(work)
        if forbidden:
            return forbidden
        compiling = next((f for f in diagnosis.findings if f.cause == "recompiling"), None)
        anew = estimate_compile_time(diagnosis) if compiling else None
        possible = diagnosis.speedup_with_faster_step(_AT_BEST)
        if not anew and possible < MIN_PREDICTED_SPEEDUP:
            return low_gain_refusal(possible)
        return Proposal(
            edits=(JitCompileOff(code_digest=work.step_code_digest),),
            predicted=anew.expected_gain() if anew else None,
            at=work.step_setup_at or work.step_call_at or work.at,
            rationale="no shape is compiled anew"
            if anew
            else "TensorFlow's own kernels may be faster",
            source_edit=_SOURCES[work.kind],
        )
