"""Run the script on Keras's jax backend, which compiles the whole step.

Legal as ``resampled``: layers, losses and optimizers are the same code of Keras's; kernels round
differently, and another generator samples random numbers, including initial weights. Code for
TensorFlow itself does not run there: Uncork does not try such a script, or the script fails in the
trial, which is a process of its own.
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

# Largest speed-up of steps on batches in memory: measured 1.5x to 7x on five small models, on two
# cores; it only decides whether to try.
_MAX_SPEEDUP: Final = 4.0
# Seconds of a step: the proof compares hundreds of steps in each of two processes.
_MAX_STEP_S: Final = 0.12


def _refusal(context: Context) -> str:
    work, machine = context.workload, context.machine
    model, hooks = work.model, ", ".join(work.batch_callbacks)
    reasons = {
        "JAX is not installed: to try it, pip install jax": not machine.jax,
        "not tried with an accelerator yet, which JAX and TensorFlow cannot share": machine.devices,
        f"within an epoch JAX owns the weights, which {hooks} may change": hooks,
        "each call of fit runs a few steps only": work.is_fit_in_loop,
        "the model has a train_step of its own": model is None or model.train_step_digest,
        "Uncork tries it on models in float32 only": model and model.dtype_policies != ("float32",),
        "XLA compiles the step already": work.jit_compile,
        "the batch size is unknown": work.batch_size is None,
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
        """Propose it where JAX is installed and Keras runs the training."""
        if context.diagnosis.memory_overflow is not None:
            how = context.diagnosis.memory_overflow.description
            return Skipped(
                reason=f"the training fits into memory only {how}, which needs TensorFlow's step"
            )
        if context.diagnosis.step_s > _MAX_STEP_S:
            step_ms = context.diagnosis.step_s * 1e3
            return Skipped(
                reason=f"a step takes {step_ms:.0f} ms, and the proof compares hundreds of them"
            )
        possible = context.diagnosis.speedup_with_faster_resident_step(_MAX_SPEEDUP)
        if not is_worth_trying(possible):
            return low_gain_refusal(possible)
        return Proposal(
            edits=(KerasBackend(backend="jax", backend_version=context.machine.jax),),
            predicted=None,
            at=context.workload.at,
            rationale="Keras's jax backend compiles the whole step",
            source_edit='os.environ["KERAS_BACKEND"] = "jax"  # before Keras is imported',
        )
