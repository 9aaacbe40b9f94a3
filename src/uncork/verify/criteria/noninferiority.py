"""Not worse by more than the training's own noise, shown with a stated power.

"No difference was seen" is what too little data says, too. So the burden is turned round: the whole
interval of the difference must lie below a margin, and the margin is what another order of the same
data does to the loss of the user's own training. How many orders that takes follows from the
measured variance.

The margin is itself estimated from few runs. In 2,000 simulated trainings at each of two noises,
4 to 8 orders, a loss higher by once the true noise is let through in 5 to 17 %, by one and a half
times in at most 2 %, by twice in 0.2 %.

Method: paired non-inferiority test with a t-interval (ICH E9; Julious, "Sample sizes for clinical
trials with normal data", 2004), sizes by the normal approximation.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from uncork.core.base.measurement import t_quantile_95
from uncork.core.base.record import Record

# Chance that a training which is not worse at all is let through.
MIN_POWER: Final = 0.8
# Share of a loss that float32 itself rounds away: no noise is smaller.
_FLOOR: Final = 1e-6


class NonInferiority(Record, frozen=True, kw_only=True):
    """What paired losses say of a candidate.

    Attributes:
        bias: How much higher its loss is on average.
        error: Half-width of the 95 % interval of that.
        margin: How much higher it may be: so many standard deviations of the original's own loss.
        power: Chance that a candidate with no bias passes at this noise, 0 to 1.
        n: Pairs.
    """

    bias: float
    error: float
    margin: float
    power: float
    n: int

    @property
    def is_shown(self) -> bool:
        """A loss higher by the margin is ruled out."""
        return self.bias + self.error < self.margin


def noninferiority(
    original: Sequence[float], candidate: Sequence[float], *, margin_stdevs: float = 1.0
) -> NonInferiority:
    """Compare losses pair by pair: the same orders, so that the orders' own spread cancels.

    Args:
        original: Loss of the original, one for each order of the data, at least two.
        candidate: Of the candidate, over the same orders.
        margin_stdevs: The margin, in standard deviations of the original's own loss.

    Example:
        >>> noninferiority([0.80, 0.82, 0.78, 0.79], [0.80, 0.82, 0.79, 0.79]).is_shown
        True
    """
    worse = [b - a for a, b in zip(original, candidate, strict=True)]
    margin = _margin(original, margin_stdevs)
    one = _standard_error(worse)
    return NonInferiority(
        bias=statistics.fmean(worse),
        error=t_quantile_95(len(worse) - 1) * one,
        margin=margin,
        power=_power(margin, one, len(worse)),
        n=len(worse),
    )


def pairs_needed(
    original: Sequence[float],
    candidate: Sequence[float],
    max_pairs: int,
    *,
    margin_stdevs: float = 1.0,
) -> int:
    """How many pairs give the stated power at the variance of these; at most ``max_pairs``.

    Only the variance is looked at, not the difference itself: measuring on until it looks good
    would let anything through.

    Example:
        >>> pairs_needed([0.80, 0.82, 0.78, 0.79], [0.81, 0.81, 0.79, 0.78], max_pairs=12)
        6
    """
    margin = _margin(original, margin_stdevs)
    spread = statistics.stdev(b - a for a, b in zip(original, candidate, strict=True))
    enough = (
        n
        for n in range(len(original), max_pairs)
        if _power(margin, spread / math.sqrt(n), n) >= MIN_POWER
    )
    return next(enough, max_pairs)


def _margin(base: Sequence[float], noises: float) -> float:
    return max(noises * statistics.stdev(base), 2 * _FLOOR * abs(statistics.fmean(base)))


def _standard_error(worse: Sequence[float]) -> float:
    return statistics.stdev(worse) / math.sqrt(len(worse))


def _power(margin: float, standard_error: float, n: int) -> float:
    if standard_error == 0:
        return 1.0
    return statistics.NormalDist().cdf(margin / standard_error - t_quantile_95(n - 1))
