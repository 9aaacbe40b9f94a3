"""Recurrent layers with an argument that shuts the fast kernels out: ``rnn_slow_kernel``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.evidence.model import SlowLayer
from uncork.rules.base.findings import step_finding
from uncork.rules.base.thresholds import format_ms, is_surely_faster

_OTHER: Final = ": the only one that cuDNN supports; this changes the model"
_REMEDIES: Final = {
    "recurrent_dropout": ("remove recurrent_dropout; dropout of the inputs keeps the fast kernels"),
    "activation": f'activation="tanh"{_OTHER}',
    "recurrent_activation": f'recurrent_activation="sigmoid"{_OTHER}',
    "use_bias": "use_bias=True, as cuDNN requires; this changes the model",
    "unroll": "unroll=False: cuDNN runs all time steps in one kernel; the model stays the same",
    "reset_after": "reset_after=True, as cuDNN requires; this changes the model",
}


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """One finding for each line that makes such layers, where a copy without it ran faster."""
    del machine
    for slow in diagnosis.slow_layers:
        if slow.argument in _REMEDIES and is_surely_faster(slow.speedup_without_argument):
            yield from _finding(diagnosis, slow)


def _finding(diagnosis: WorkloadDiagnosis, slow: SlowLayer) -> Iterator[Finding]:
    share = diagnosis.layer_kernel_share(slow)
    upper = diagnosis.speedup_without_kernels(share * (1 - 1 / slow.speedup_without_argument.ratio))
    evidence = (
        f"{share:.0%} of the kernel time of a {format_ms(diagnosis.step_s)} step goes to "
        f"{slow.layer}; a copy of it ran {slow.speedup_without_argument.ratio:.2f}x as fast "
        f"without {slow.argument}"
    )
    yield from step_finding(
        diagnosis, "rnn_slow_kernel", upper, slow.at, evidence, _REMEDIES[slow.argument]
    )
