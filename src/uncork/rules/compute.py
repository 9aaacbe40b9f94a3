"""The device is the limit: ``compute_bound``. A finding, because it says where *not* to look."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.diagnosis import Finding, WorkloadDiagnosis
from uncork.core.machine import Machine
from uncork.rules.evidence import ms

# Share of the step spent in kernels above which a cheaper step is the only thing left to win.
_MOSTLY = 0.85


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """A finding where lower precision could still make the step itself cheaper."""
    share = diagnosis.breakdown.get("step", 0.0)
    model = diagnosis.workload.model
    if share < _MOSTLY or not diagnosis.bfloat16 or model is None:
        return
    if model.dtype_policy != ("float32",):
        return
    yield Finding(
        cause="compute_bound",
        share=share,
        # Half the bytes and at best twice the arithmetic: the most that bfloat16 can give.
        upper_bound=1 / (1 - share / 2),
        at=diagnosis.workload.at,
        evidence=(
            f"{ms(share * diagnosis.step_s)} of a {ms(diagnosis.step_s)} step are kernels in "
            f"float32 on {machine.devices[0] if machine.devices else machine.cpu_model}"
        ),
        remedy="a cheaper step: mixed_bfloat16, XLA, a smaller model; the input keeps up",
    )
