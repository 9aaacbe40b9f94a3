"""What all rules share: when a bottleneck is worth naming, and how its cost is described."""

from __future__ import annotations

from typing import Final

from uncork.core.base.measurement import Comparison
from uncork.core.documents.diagnosis import WorkloadDiagnosis
from uncork.core.evidence.kernels import KernelGroup
from uncork.core.evidence.stage import Stage

# Ratio. Below 1.1 a finding would be within what two runs of the same script differ by on a shared
# machine, and nobody changes a pipeline for it.
MIN_FINDING_SPEEDUP: Final = 1.10
# Ratio. The least that a comparison must show: one in forty of a step with itself seems a gain.
_SURELY: Final = 1.05
# Of a step: where noise reaches further, the interval of a gain would have no end.
_MOST_SAVED: Final = 0.99


def speedup_bound(step_s: float, without_s: float) -> float:
    """How many times faster a step could be if it took ``without_s``, at least 1.

    Example:
        >>> speedup_bound(0.04, 0.01)
        4.0
    """
    return max(1.0, step_s / without_s) if without_s > 0 else 1.0


def speedup_interval(
    diagnosis: WorkloadDiagnosis, share_name: str, upper_bound: float
) -> tuple[float, float] | None:
    """How far a promised gain can be trusted, as far as the share it comes from can.

    The time that a gain saves is a part of that share; both are wrong by the same factor.

    Args:
        diagnosis: Whose shares have intervals.
        share_name: ``input`` or ``host``.
        upper_bound: The promised gain.
    """
    share = diagnosis.breakdown_intervals.get(share_name)
    if share is None or share.high is None or share.median <= 0:
        return None
    saved = 1 - 1 / upper_bound
    low, high = (saved * max(0.0, end) / share.median for end in (share.low, share.high))
    most = max(saved, _MOST_SAVED)
    return 1 / (1 - min(low, most)), 1 / (1 - min(high, most))


def resident_step_s(diagnosis: WorkloadDiagnosis) -> float:
    """Seconds of the training step on a batch from memory; 0 where that is not known."""
    ceiling = diagnosis.ceilings.get("consumer", 0.0)
    return diagnosis.step_s * diagnosis.measurement.samples_per_s / ceiling if ceiling else 0.0


def is_surely_faster(comparison: Comparison) -> bool:
    """The whole interval shows a gain, and one that is not negligible.

    Example:
        >>> from uncork.core.base.measurement import compare
        >>> (
        ...     is_surely_faster(compare([100, 101], [140, 141])),
        ...     is_surely_faster(compare([1, 1], [1, 1])),
        ... )
        (True, False)
    """
    return comparison.low > _SURELY


def step_speedup_interval(
    diagnosis: WorkloadDiagnosis, comparison: Comparison
) -> tuple[float, float] | None:
    """How far the gain of a cheaper step can be trusted, as far as it was seen to be cheaper."""
    if comparison.high is None:
        return None
    return diagnosis.speedup_with_faster_step(comparison.low), diagnosis.speedup_with_faster_step(
        comparison.high
    )


def float64_casts(diagnosis: WorkloadDiagnosis) -> tuple[KernelGroup, ...]:
    """Kernels of the step that narrow what a loader reads from float64 arrays."""
    if not any(s.has_python_code and s.float32_cpu_s_per_element for s in diagnosis.stages):
        return ()
    return tuple(p for p in diagnosis.kernels if p.main_kernel == "Cast" and p.batch_only_share)


def input_share(diagnosis: WorkloadDiagnosis) -> float:
    """Part of the step lost to input."""
    return diagnosis.breakdown.get("input", 0.0)


def format_ms(seconds: float | None) -> str:
    """Milliseconds for people.

    Example:
        >>> format_ms(0.01234)
        '12.3 ms'
    """
    if seconds is None:
        return "unknown"
    return f"{seconds * 1e3:.3g} ms"


def format_seconds(seconds: float) -> str:
    """Seconds for people, of whatever size.

    Example:
        >>> format_seconds(0.0123), format_seconds(2.345), format_seconds(1234.5)
        ('12.3 ms', '2.3 s', '1,234 s')
    """
    if seconds < 1:
        return format_ms(seconds)
    return f"{seconds:,.0f} s" if seconds >= 100 else f"{seconds:.2g} s"


def stage_label(stage: Stage) -> str:
    """How a stage is called in a sentence: ``map(load)``."""
    return f"{stage.kind}({stage.name})" if stage.name else stage.kind
