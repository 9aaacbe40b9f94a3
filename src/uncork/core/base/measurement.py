"""Measurements and their comparison: immutable, with an interval, doubtful by default."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

from uncork.core.base.record import Record

Verdict = Literal["faster", "slower", "not_proven"]

# Ratio. A gain this large that is not proven yet deserves a second, more patient trial.
MIN_PROMISING_RATIO = 1.05
# Times the ratio, or 1: an end of an interval beyond that comes of two or three pairs.
_TELLING = 100

# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom (any statistics table);
# beyond 30 the normal quantile is within 4 %.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip

# The same at 99.16 %. Who looks after each pair, from the 3rd to the 16th, and stops at the first
# look that decides, decides between identical programs in 4.8 % of all runs (400,000 simulated ones
# with normal noise); with the quantiles above it would be 21 %.
_T_LOOKING = (
    75.784, 10.842, 6.214, 4.840, 4.211, 3.856, 3.630, 3.473, 3.359, 3.272,
    3.204, 3.148, 3.103, 3.065, 3.032, 3.005, 2.980, 2.959, 2.940, 2.924,
    2.909, 2.895, 2.883, 2.872, 2.862, 2.852, 2.844, 2.836, 2.828, 2.821,
)  # fmt: skip

# Two-sided 98.3 % quantiles for 2, 4, 6 and 8 degrees of freedom: two groups of 2 to 5 values. Who
# looks after each pair and stops at the first look that decides then decides between identical
# groups in 4.9 % of all runs (400,000 simulated ones with normal noise).
_T_GROUPS = {2: 7.573, 3: 3.939, 4: 3.276, 5: 3.004}
MAX_GROUP_SIZE = max(_T_GROUPS)


def t_quantile_95(degrees_of_freedom: int) -> float:
    """Two-sided 95 % quantile of Student's t."""
    if degrees_of_freedom < 1:
        return math.inf
    return _T95[degrees_of_freedom - 1] if degrees_of_freedom <= len(_T95) else 1.96


def t_quantile_sequential(degrees_of_freedom: int) -> float:
    """The same for one of many looks at growing data, so that all together keep to 5 %."""
    if degrees_of_freedom < 1:
        return math.inf
    return _T_LOOKING[min(degrees_of_freedom, len(_T_LOOKING)) - 1]


class Spread(Record, frozen=True, kw_only=True):
    """A figure with its 95 % interval and the number of values behind it.

    ``high`` is None where there is no upper end: a single value has no interval.
    """

    median: float
    low: float
    high: float | None
    n: int


def spread(values: Sequence[float]) -> Spread:
    """Median with a 95 % t-interval of the mean around it; an open one from a single value.

    Example:
        >>> spread([1.0, 1.0, 1.0])
        Spread(median=1.0, low=1.0, high=1.0, n=3)
    """
    middle = statistics.median(values)
    if len(values) < 2:
        return Spread(median=middle, low=0.0, high=None, n=len(values))
    half = t_quantile_95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    # Seconds and speeds have no negative end.
    low = max(middle - half, min(0.0, *values))
    return Spread(median=middle, low=low, high=middle + half, n=len(values))


def is_open_interval(ratio: float, high: float | None) -> bool:
    """An interval's upper end tells nothing: there is none, or it is absurdly far away.

    Example:
        >>> is_open_interval(0.2, 2e9), is_open_interval(2.0, 3.0)
        (True, False)
    """
    return high is None or not high <= _TELLING * max(1.0, ratio)


class Measurement(Record, frozen=True, kw_only=True):
    """Steady-state speed of one version of a training.

    Attributes:
        samples_per_s: Median over blocks.
        step_s: Seconds of one training step, start-up and compilation excluded.
        cpu_s_per_step: CPU seconds of the whole process, all threads.
        warmup_s: Seconds before the first measured step: tracing, buffers, caches.
        block_samples_per_s: samples/s of each measured block, in the order they ran.
        between_epochs_share: Part of the time that passes between two epochs, 0 to 1; None where
            too few ended.
        page_fault_s_per_step: CPU seconds, of those above, in which the process was given memory
            that it had given back.
    """

    samples_per_s: float
    step_s: Spread
    cpu_s_per_step: float
    warmup_s: float
    block_samples_per_s: tuple[float, ...]
    between_epochs_share: float | None = None
    page_fault_s_per_step: float = 0.0


class Comparison(Record, frozen=True, kw_only=True):
    """Candidate over base: a ratio of speeds above 1 means that the candidate is faster.

    Attributes:
        ratio: Geometric mean over the pairs.
        low: Lower end of its interval.
        high: Upper end; None where there is none.
        n: Pairs.
        verdict: What the interval says.
        min_detectable_ratio: The smallest measured ratio that so many pairs would have proved, at
            the noise that they had; None where a single pair says nothing of noise.
    """

    ratio: float
    low: float
    high: float | None
    n: int
    verdict: Verdict
    min_detectable_ratio: float | None = None


def compare(
    base: Sequence[float],
    candidate: Sequence[float],
    *,
    min_ratio: float = 1.0,
    is_sequential: bool = False,
) -> Comparison:
    """Compare paired speeds by the mean of their log ratios, with a 95 % t-interval.

    Pairs must have run next to each other (A B, then B A): drift of a noisy machine then falls on
    both and cancels. The verdict is ``not_proven`` unless the whole interval lies on one side.

    Args:
        base: Speeds of the base, one per pair, e.g. samples/s.
        candidate: Speeds of the candidate, same length and order.
        min_ratio: Smallest ratio that counts as faster; the interval must lie above it.
        is_sequential: This is one of many looks while the data grows, and the first that decides
            ends it; the interval is wider, so that all looks together are wrong in 5 % of all
            cases.

    Raises:
        ValueError: If the lengths differ or a speed is not positive.

    Example:
        >>> compare([100, 101, 99], [200, 203, 197]).verdict
        'faster'
        >>> compare([100], [200]).verdict
        'not_proven'
    """
    if len(base) != len(candidate) or not base or min(*base, *candidate) <= 0:
        raise ValueError(f"need paired positive speeds, got {list(base)} and {list(candidate)}")
    logs = [math.log(c / b) for b, c in zip(base, candidate, strict=True)]
    middle = statistics.fmean(logs)
    if len(logs) == 1:
        return Comparison(ratio=math.exp(middle), low=0.0, high=None, n=1, verdict="not_proven")
    quantile = t_quantile_sequential if is_sequential else t_quantile_95
    half = quantile(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    # exp overflows past 709; a ratio of e**700 is as good as unbounded.
    low, high = math.exp(max(middle - half, -700.0)), math.exp(min(middle + half, 700.0))
    verdict: Verdict = "not_proven"
    if low > min_ratio:
        verdict = "faster"
    elif high < min(1.0, min_ratio):
        verdict = "slower"
    return Comparison(
        ratio=math.exp(middle),
        low=low,
        high=high,
        n=len(logs),
        verdict=verdict,
        min_detectable_ratio=min_ratio * math.exp(min(half, 700.0)),
    )


def compare_groups(base: Sequence[float], candidate: Sequence[float]) -> Comparison:
    """Compare speeds of processes, each in a process of its own, at one of several looks.

    Two groups with a common spread of their log speeds: so few values tell more of it together
    than the differences of pairs would. Both groups must have run in turn (A B B A), or the drift
    of a noisy machine counts as a difference. The interval is that of a sequential test: who looks
    after each pair from the second on, and stops as soon as the verdict is no longer
    ``not_proven``, is wrong in 5 % of all cases.

    Args:
        base: Speeds of the base, one for each process, e.g. samples/s.
        candidate: Of the candidate; as many, at most :data:`MAX_GROUP_SIZE`.

    Raises:
        ValueError: If the lengths differ, or there are too few or too many of them.

    Example:
        >>> compare_groups([100, 104], [390, 402]).verdict
        'faster'
        >>> compare_groups([100, 104], [120, 132]).verdict
        'not_proven'
    """
    if len(base) != len(candidate) or len(base) not in _T_GROUPS:
        raise ValueError(f"need 2 to {MAX_GROUP_SIZE} of each, got {list(base)}, {list(candidate)}")
    ours, theirs = ([math.log(speed) for speed in group] for group in (base, candidate))
    count = len(base)
    middle = statistics.fmean(theirs) - statistics.fmean(ours)
    pooled = (statistics.variance(ours) + statistics.variance(theirs)) / 2
    half = _T_GROUPS[count] * math.sqrt(2 * pooled / count)
    low, high = math.exp(max(middle - half, -700.0)), math.exp(min(middle + half, 700.0))
    verdict: Verdict = "faster" if low > 1 else "slower" if high < 1 else "not_proven"
    return Comparison(
        ratio=math.exp(middle),
        low=low,
        high=high,
        n=count,
        verdict=verdict,
        min_detectable_ratio=math.exp(min(half, 700.0)),
    )


def pairs_to_prove(comparison: Comparison, min_ratio: float, max_pairs: int) -> int | None:
    """How many pairs would prove the ratio that was found, at the noise that they had.

    Args:
        comparison: One of many looks at growing data, of two pairs or more.
        min_ratio: Smallest ratio that counts as faster.
        max_pairs: Pairs.

    Returns:
        None where more than ``max_pairs`` were needed, or none would do.

    Example:
        >>> doubtful = compare([100, 110, 90], [150, 130, 140], min_ratio=1.03, is_sequential=True)
        >>> doubtful.verdict, pairs_to_prove(doubtful, 1.03, 16)
        ('not_proven', 6)
    """
    margin = math.log(comparison.ratio / min_ratio)
    if margin <= 0 or comparison.min_detectable_ratio is None:
        return None
    half = math.log(comparison.min_detectable_ratio / min_ratio)
    stdev = half * math.sqrt(comparison.n) / t_quantile_sequential(comparison.n - 1)
    for n in range(comparison.n, max_pairs + 1):
        if t_quantile_sequential(n - 1) * stdev / math.sqrt(n) < margin:
            return n
    return None
