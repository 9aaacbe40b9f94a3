"""Compile the training step with XLA.

Legal as ``rounding``: XLA fuses kernels and reorders sums, which changes the last bits. Layers with
their own random numbers may draw others under XLA; the proof then fails and the step is refused.
Judged on time to finish: compiling takes seconds to minutes, and a new shape compiles again.

In a loop of the user's own the step is the one ``tf.function`` that it calls for each batch.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.step import JitCompile
from uncork.optimizations.base.preconditions import any_step_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    is_worth_trying,
    low_gain_refusal,
)

# Ratio that fusing kernels gives at best, from published XLA results on convolutional and dense
# models (1.1x to 1.5x); it only decides whether compiling is worth its time.
_AT_BEST: Final = 1.5
_SOURCES: Final = {
    "fit": "model.compile(..., jit_compile=True)",
    "custom_loop": "@tf.function(jit_compile=True)\ndef train_step(...):",
}


@final
class JitCompileOptimization(Optimization):
    """Set ``jit_compile=True``."""

    name = "jit_compile"
    stage = "compile"
    guarantee = "rounding"
    preconditions = (any_step_refusal,)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """XLA, where the kernels take a good part of the step."""
        work = context.workload
        if work.jit_compile:
            return Skipped(reason="compiled with XLA already")
        possible = context.diagnosis.speedup_with_faster_step(_AT_BEST)
        if not is_worth_trying(possible):
            return low_gain_refusal(possible)
        return Proposal(
            edits=(JitCompile(code_digest=work.step_code_digest),),
            predicted=None,
            at=work.step_setup_at or work.step_call_at or work.at,
            rationale="kernels are fused",
            source_edit=_SOURCES[work.kind],
        )
