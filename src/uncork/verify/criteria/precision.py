"""``precision``: another precision inside, the same training to the noise.

The noise is the user's own: the original trains from one snapshot over the same batches in several
orders; the spread of its losses is the band. The candidate trains over the same orders. Every run
of the candidate must stay inside the band's prediction interval in every window, its mean must not
be shown to be worse in any, and in the last one it must be shown not to be worse by more than the
noise. A band so wide that it would let anything through proves nothing. Nor does a training that
learns nothing while it is watched, as at a rate that the script has yet to raise: there the
weights must go the same way, or nothing is proved.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from uncork.core.base.measurement import t_quantile_95
from uncork.core.documents.plan import Proof
from uncork.training.state.arrays import ReplayResult
from uncork.verify.criteria.noninferiority import noninferiority, pairs_needed

# Data orders: so many at first; up to the second where their variance asks for more.
MIN_ORDERS: Final = 4
MAX_ORDERS: Final = 8
LOSS_WINDOWS: Final = 4
# Half-width of the band over the loss itself, above which the comparison has no power.
_WIDEST: Final = 0.3
NO_LOSS_REASON: Final = "the step reports no single loss that could be compared"
# Of the way that the weights go, how far apart they may be at its end.
_ASTRAY: Final = 0.5
# Float32's own rounding of a mean loss: a band cannot be narrower than that.
_FLOOR: Final = 1e-6


def prove_precision(
    original: Sequence[ReplayResult],
    candidate: Sequence[ReplayResult],
    steps: int,
    start: ReplayResult | None = None,
) -> Proof:
    """Compare runs over the same orders of the same batches, pairwise and as a band.

    Args:
        original: As the user wrote it, one run for each order.
        candidate: Over the same orders.
        steps: Of each.
        start: Weights that all of them began with; None where their weights are not compared.
    """
    why_not = _incomparable(original, candidate, steps)
    if why_not:
        broken = all(run.is_finite for run in original) and not all(
            run.is_finite for run in candidate
        )
        return _proof(False, why_not, harmed=broken)
    windows = range(len(original[0].losses))
    for window in windows:
        losses, others = ([r.losses[window] for r in runs] for runs in (original, candidate))
        wide = _too_wide(losses)
        failure = wide or _leaves_band(losses, others)
        if failure:
            told = f"window {window + 1} of {len(windows)}: {failure}"
            return _proof(False, told, harmed=not wide)
    base, other = _last(original), _last(candidate)
    found = noninferiority(base, other)
    fell = statistics.fmean(run.losses[0] for run in original) - statistics.fmean(base)
    if not found.is_shown:
        return _proof(
            False,
            f"{found.n} data orders of {steps} steps do not rule out a loss higher by more than "
            f"the training's own noise of {found.margin:.2g}: "
            f"it is {found.bias:+.2g} +- {found.error:.2g}",
        )
    if start is not None and fell <= found.margin and not _go_along(start, original, candidate):
        return _proof(
            False,
            f"within {steps} steps the original's loss falls by {fell:.2g}, where its noise is "
            f"{found.margin:.2g}, and the weights differ: this would not reveal a worse training",
        )
    return _proof(
        True,
        f"{found.n} data orders of {steps} steps: last-window loss "
        f"{statistics.fmean(other):.4g} against {statistics.fmean(base):.4g}, "
        f"higher by at most {max(0.0, found.bias + found.error):.2g} where the training's own "
        f"noise is {found.margin:.2g} (power {found.power:.0%}); "
        f"band of one run +-{_half_width(base):.2g}",
    )


def _go_along(
    start: ReplayResult, original: Sequence[ReplayResult], candidate: Sequence[ReplayResult]
) -> bool:
    """Whether the weights of both go about the same way, which is one."""
    for run, other in zip(original, candidate, strict=True):
        way, apart = (math.hypot(*run.learned_distances(each)) for each in (start, other))
        if not way or apart > _ASTRAY * way:
            return False
    return True


def _incomparable(
    original: Sequence[ReplayResult], candidate: Sequence[ReplayResult], steps: int
) -> str:
    """Why their losses cannot be compared; ``""`` where they can."""
    if not all(run.is_loss_comparable for run in (*original, *candidate)):
        return NO_LOSS_REASON
    if not all(run.is_finite for run in original):
        return "the original's loss is not finite: nothing can be compared"
    if not all(run.is_finite for run in candidate):
        return f"the loss became NaN or infinite within {steps} steps"
    counts = {len(run.losses) for run in (*original, *candidate)}
    return "" if len(counts) == 1 else f"losses of {sorted(counts)} windows cannot be compared"


def orders_needed(original: Sequence[ReplayResult], candidate: Sequence[ReplayResult]) -> int:
    """How many data orders the proof takes at the variance of these runs."""
    runs = (*original, *candidate)
    if not all(run.is_finite for run in runs) or len({len(run.losses) for run in runs}) != 1:
        return len(original)
    return pairs_needed(_last(original), _last(candidate), MAX_ORDERS)


def _last(runs: Sequence[ReplayResult]) -> list[float]:
    return [run.losses[-1] for run in runs]


def _too_wide(base: list[float]) -> str:
    """Why a band lets anything through; empty when it does not."""
    middle, half = statistics.fmean(base), _half_width(base)
    if half > _WIDEST * abs(middle):
        return f"the original's band, +-{half:.2g} around a loss of {middle:.2g}, is too wide"
    return ""


def _leaves_band(base: list[float], other: list[float]) -> str:
    """Why the candidate leaves the band in one window; empty when it does not."""
    middle, half = statistics.fmean(base), _half_width(base)
    outside = [loss for loss in other if abs(loss - middle) > half]
    if outside:
        return f"loss {outside[0]:.4g} outside {middle:.4g} +- {half:.2g}"
    worse = [b - a for a, b in zip(base, other, strict=True)]
    error = t_quantile_95(len(worse) - 1) * statistics.stdev(worse) / math.sqrt(len(worse))
    # Paired: the same orders, so that the orders' own spread cancels and a bias shows.
    bias = statistics.fmean(worse)
    allowed = max(statistics.stdev(base) / math.sqrt(len(base)), _FLOOR * abs(middle))
    if bias - error > allowed:
        return f"the loss is higher by {bias:.2g} on average"
    return ""


def _half_width(base: list[float]) -> float:
    """Half of the 95 % prediction interval for one more run of the original."""
    spread = statistics.stdev(base) * math.sqrt(1 + 1 / len(base))
    return max(t_quantile_95(len(base) - 1) * spread, _FLOOR * abs(statistics.fmean(base)))


def _proof(passed: bool, detail: str, *, harmed: bool = False) -> Proof:
    return Proof(kind="precision", passed=passed, detail=detail, is_disproved=harmed)
