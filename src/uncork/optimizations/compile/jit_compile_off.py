"""Leave XLA out where it costs more than it gives.

XLA compiles for exact shapes: each new length of a batch is another compilation of the whole step,
of seconds to minutes. And where shapes are all the same its kernels need not be the faster ones. A
script may ask for it (``jit_compile=True``) because it was said to be faster; on a GPU Keras does
by itself (``"auto"``).

Legal as ``rounding``: the same mathematics on TensorFlow's own kernels, which round otherwise.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.costmodel.compile_time import estimate_compile_time
from uncork.core.edits.step import JitCompileOff
from uncork.optimizations.base.preconditions import any_step_refusal, unknown_length_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    is_worth_trying,
    low_gain_refusal,
)

# Ratio that kernels without XLA give at best where shapes are the same, taken as what XLA gives
# where it wins (see jit_compile): it only decides whether to look.
_AT_BEST: Final = 1.5
_SOURCES: Final = {
    "fit": "model.compile(..., jit_compile=False)",
    "custom_loop": "@tf.function(jit_compile=False)\ndef train_step(...):",
}


def _refusal(context: Context) -> str:
    return "" if context.workload.jit_compile else "XLA is off already"


@final
class JitCompileOffOptimization(Optimization):
    """Set ``jit_compile=False``."""

    name = "jit_compile_off"
    stage = "compile"
    guarantee = "rounding"
    preconditions = (_refusal, any_step_refusal, unknown_length_refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Where compiling anew is what brakes; else where the kernels are worth a look."""
        work = context.workload
        recompiles = any(f.cause == "recompiling" for f in context.diagnosis.findings)
        compiling = estimate_compile_time(context.diagnosis) if recompiles else None
        possible = context.diagnosis.speedup_with_faster_step(_AT_BEST)
        if not compiling and not is_worth_trying(possible):
            return low_gain_refusal(possible)
        return Proposal(
            edits=(JitCompileOff(code_digest=work.step_code_digest),),
            predicted=compiling.expected_gain() if compiling else None,
            at=work.step_setup_at or work.step_call_at or work.at,
            rationale="no shape is compiled anew"
            if compiling
            else "TensorFlow's own kernels may be faster",
            source_edit=_SOURCES[work.kind],
        )
