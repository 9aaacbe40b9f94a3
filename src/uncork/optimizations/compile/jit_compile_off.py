"""Turn XLA off where it costs more than it saves.

XLA compiles for exact shapes: each new length of a batch compiles the whole step again, which takes
seconds to minutes. Even with equal shapes its kernels need not be the faster ones. A script may
turn XLA on (``jit_compile=True``) because it is known as faster; on a GPU Keras does so by default
(``"auto"``).

Legal as ``rounding``: the same mathematics on TensorFlow's own kernels, which round differently.
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

# Largest speed-up of kernels without XLA with equal shapes, assumed to be that of XLA where it is
# faster (see jit_compile); it only decides whether to try.
_MAX_SPEEDUP: Final = 1.5
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
        """Propose it where recompiling is the bottleneck, or other kernels may be faster."""
        work = context.workload
        recompiles = any(f.cause == "recompiling" for f in context.diagnosis.findings)
        compiling = estimate_compile_time(context.diagnosis) if recompiles else None
        possible = context.diagnosis.speedup_with_faster_step(_MAX_SPEEDUP)
        if not compiling and not is_worth_trying(possible):
            return low_gain_refusal(possible)
        return Proposal(
            edits=(JitCompileOff(code_digest=work.step_code_digest),),
            predicted=compiling.expected_gain() if compiling else None,
            at=work.step_setup_at or work.step_call_at or work.at,
            rationale="TensorFlow no longer compiles each new shape"
            if compiling
            else "TensorFlow's own kernels may be faster",
            source_edit=_SOURCES[work.kind],
        )
