"""Kernels in float32 where this device has faster ones: ``low_precision_unused``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import WORTH, ms, step_interval, surely_faster

# Share of the step spent in kernels above which a cheaper step is the only thing left to win.
_MOSTLY = 0.85
_SCALED = (
    "; Keras scales the loss of fit then; a loop of your own wraps its optimizer in "
    "keras.optimizers.LossScaleOptimizer, and takes gradients of optimizer.scale_loss(loss)"
)


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """A finding where lower precision was seen to make the step itself cheaper."""
    share = diagnosis.breakdown.get("step", 0.0)
    kind = "bfloat16" if diagnosis.in_bfloat16 else "float16"
    lower = diagnosis.in_bfloat16 or diagnosis.in_float16
    if share < _MOSTLY or lower is None or not surely_faster(lower):
        return
    upper = diagnosis.with_step_faster(lower.ratio)
    if upper < WORTH:
        return
    yield Finding(
        cause="low_precision_unused",
        share=share,
        upper_bound=upper,
        interval=step_interval(diagnosis, lower),
        at=_heaviest(diagnosis) or diagnosis.workload.at,
        evidence=(
            f"{ms(share * diagnosis.step_s)} of a {ms(diagnosis.step_s)} step are kernels in "
            f"float32 on {machine.devices[0] if machine.devices else machine.cpu_model}; "
            f"in {kind} they ran {lower.ratio:.2f}x as fast"
        ),
        remedy=(
            f'keras.config.set_dtype_policy("mixed_{kind}"), the output layer in float32'
            f"{_SCALED if kind == 'float16' else ''}"
        ),
    )


def _heaviest(diagnosis: WorkloadDiagnosis) -> str | None:
    """The line of the layer whose kernels take longest, forward and backward together."""
    shares = Counter[str]()
    for part in diagnosis.kernels:
        if part.layer and part.at:
            shares[part.at] += part.share  # type: ignore[assignment]
    return max(shares, key=shares.__getitem__, default=None)
