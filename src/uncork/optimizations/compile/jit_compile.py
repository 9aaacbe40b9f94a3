"""Compile the training step with XLA.

Legal as ``rounding``: XLA fuses kernels and reorders sums, which changes the last bits. Layers with
random numbers may sample others under XLA; then the proof fails and Uncork rejects the step. It
counts the time to finish: compiling takes seconds to minutes, and a new shape compiles again.

In the user's own loop the step is the one ``tf.function`` that the loop calls for each batch.
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

# Largest speed-up by fused kernels, from published XLA results on convolutional and dense models
# (1.1x to 1.5x); it only decides whether to try.
_MAX_SPEEDUP: Final = 1.5
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
        """Select XLA where kernels take a large share of the step."""
        work = context.workload
        if work.jit_compile:
            return Skipped(reason="XLA compiles the step already")
        possible = context.diagnosis.speedup_with_faster_step(_MAX_SPEEDUP)
        if not is_worth_trying(possible):
            return low_gain_refusal(possible)
        return Proposal(
            edits=(JitCompile(code_digest=work.step_code_digest),),
            predicted=None,
            at=work.step_setup_at or work.step_call_at or work.at,
            rationale="XLA fuses kernels",
            source_edit=_SOURCES[work.kind],
        )
