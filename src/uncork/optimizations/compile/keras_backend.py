"""Run the script on Keras's jax backend, which compiles the whole step.

Legal as ``resampled``: layers, losses and optimizers are the same code of Keras's; kernels round
otherwise, and random numbers, initial weights among them, are drawn by another generator. What is
written for TensorFlow itself does not run there: such a script is left alone, or shows by failing
in the trial, which is a process of its own.
"""

from __future__ import annotations

from typing import Final, final

from uncork.core.edits.edit import KerasBackend
from uncork.optimizations.base.preconditions import step_edit_refusal
from uncork.optimizations.base.proposal import (
    Context,
    Optimization,
    Proposal,
    Skipped,
    first_holding,
    is_worth_trying,
    low_gain_refusal,
)

# Ratio at best, of steps on batches from memory: measured 1.5x to 7x on five small models, on two
# cores; it only decides whether a process of its own is worth its time.
_AT_BEST: Final = 4.0
# Seconds of a step: its losses are compared over hundreds of steps in each of two processes.
_LONGEST: Final = 0.12


def _refusal(context: Context) -> str:
    work, machine = context.workload, context.machine
    model, hooks = work.model, ", ".join(work.batch_callbacks)
    reasons = {
        "no JAX is installed beside TensorFlow: pip install jax, to try it": not machine.jax,
        "not tried beside an accelerator yet, which only one of them can hold": machine.devices,
        f"within an epoch JAX holds the model's values, which {hooks} may change": hooks,
        "fit is called for a few steps at a time": work.is_fit_in_loop,
        "the model has a train_step of its own": model is None or model.train_step_digest,
        "tried on models in float32 only": model and model.dtype_policies != ("float32",),
        "compiled with XLA already": work.jit_compile,
        "the size of a batch is not known": work.batch_size is None,
    }
    return first_holding(reasons)


@final
class KerasBackendOptimization(Optimization):
    """Start the script with ``KERAS_BACKEND=jax``."""

    name = "keras_backend"
    stage = "compile"
    guarantee = "resampled"
    needs_own_process = True
    preconditions = (step_edit_refusal, _refusal)

    def _propose(self, context: Context) -> Proposal | Skipped:
        """Where JAX is there already, and Keras drives."""
        if context.diagnosis.memory_overflow is not None:
            how = context.diagnosis.memory_overflow.description
            return Skipped(reason=f"there is no memory for it but {how}, of TensorFlow's step")
        if context.diagnosis.step_s > _LONGEST:
            step_ms = context.diagnosis.step_s * 1e3
            return Skipped(
                reason=f"a step takes {step_ms:.0f} ms, and hundreds of them are compared"
            )
        possible = context.diagnosis.speedup_with_faster_resident_step(_AT_BEST)
        if not is_worth_trying(possible):
            return low_gain_refusal(possible)
        return Proposal(
            edits=(KerasBackend(backend="jax", backend_version=context.machine.jax),),
            predicted=None,
            at=context.workload.at,
            rationale="Keras's jax backend compiles the whole step",
            source_edit='os.environ["KERAS_BACKEND"] = "jax"  # before Keras is imported',
        )
