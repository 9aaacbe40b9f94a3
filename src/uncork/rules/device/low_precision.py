"""Kernels in float32 where this device has faster ones: ``low_precision_unused``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import (
    MIN_FINDING_SPEEDUP,
    format_ms,
    is_surely_faster,
    step_speedup_interval,
)

# Share of the step spent in kernels above which a cheaper step is the only thing left to win.
_MOSTLY = 0.85
_SCALED = (
    "; fit then scales the loss; in your own loop, wrap the optimizer in "
    "keras.optimizers.LossScaleOptimizer, and compute the gradients of optimizer.scale_loss(loss)"
)


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """A finding where lower precision was seen to make the step itself cheaper."""
    share = diagnosis.breakdown.get("step", 0.0)
    kind = "bfloat16" if diagnosis.bfloat16_speedup else "float16"
    lower = diagnosis.bfloat16_speedup or diagnosis.float16_speedup
    if share < _MOSTLY or lower is None or not is_surely_faster(lower):
        return
    upper = diagnosis.speedup_with_faster_step(lower.ratio)
    if upper < MIN_FINDING_SPEEDUP:
        return
    yield Finding(
        cause="low_precision_unused",
        share=share,
        upper_bound=upper,
        upper_bound_interval=step_speedup_interval(diagnosis, lower),
        at=_heaviest(diagnosis) or diagnosis.workload.at,
        evidence=(
            f"{format_ms(share * diagnosis.step_s)} of a {format_ms(diagnosis.step_s)} step go to "
            f"float32 kernels on {machine.devices[0] if machine.devices else machine.cpu_model}; "
            f"in {kind} they ran {lower.ratio:.2f}x as fast"
        ),
        remedy=(
            f'keras.config.set_dtype_policy("mixed_{kind}"), with the output layer in float32'
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
