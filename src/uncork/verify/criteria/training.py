"""``training``: another training, and after as many samples no worse a model.

Judged by samples that neither training saw: both start from one snapshot and go through the same
samples in several orders. What is changed must be shown not to leave a loss higher than the
original's by more than twice the standard deviation of the original's own, from one order to
another: what an unlucky order does. And the original must have learned something by then, or any
training would do.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Final

from uncork.core.documents.plan import Proof
from uncork.verify.criteria.noninferiority import noninferiority, pairs_needed

# Standard deviations of the original's loss. Over the same order a larger batch takes other steps,
# so pairs do not agree as closely as those of another precision, where one is enough.
_NOISES: Final = 2.0
# Samples trained on, and the loss of those laid aside: at the start, now and then, at the end.
LossCurve = Sequence[tuple[int, float]]


def prove_training(
    original: Sequence[LossCurve], candidate: Sequence[LossCurve], samples: int
) -> Proof:
    """Compare where trainings over the same orders end.

    Args:
        original: One curve for each order.
        candidate: Over the same orders.
        samples: That each training was given.
    """
    if not are_finite(original):
        return _proof(False, "the original's loss is not finite: nothing can be compared")
    if not are_finite(candidate):
        return _proof(False, f"the loss became NaN or infinite within {samples} samples")
    base, other = final_losses(original), final_losses(candidate)
    found = noninferiority(base, other, margin_stdevs=_NOISES)
    learned = statistics.fmean(curve[0][1] for curve in original) - statistics.fmean(base)
    if learned <= _NOISES * found.margin:
        return _proof(
            False,
            f"within {samples} samples the original's loss falls by {learned:.2g}, two orders "
            f"of the data differ by {found.margin:.2g}: too little to detect a worse training",
        )
    told = (
        f"after {samples} samples, {found.n} data orders, held-out samples: loss "
        f"{statistics.fmean(other):.4g} against {statistics.fmean(base):.4g}"
    )
    if not found.is_shown:
        return _proof(
            False,
            f"{told}; a loss higher by more than {found.margin:.2g}, twice the training's own "
            f"noise, is not ruled out: it is {found.bias:+.2g} +- {found.error:.2g}",
        )
    return _proof(
        True,
        f"{told}, higher by at most {max(0.0, found.bias + found.error):.2g} where twice the "
        f"training's own noise is {found.margin:.2g} (power {found.power:.0%})",
    )


def orders_needed(
    original: Sequence[LossCurve], candidate: Sequence[LossCurve], max_orders: int
) -> int:
    """How many data orders the proof takes at the variance of these curves."""
    if not (are_finite(original) and are_finite(candidate)):
        return len(original)
    return pairs_needed(
        final_losses(original), final_losses(candidate), max_orders, margin_stdevs=_NOISES
    )


def samples_to_loss_ratio(
    original: Sequence[LossCurve], candidate: Sequence[LossCurve]
) -> float | None:
    """Samples that the candidate needs to the loss where the original ends, over the original's.

    Args:
        original: Curves over the same samples.
        candidate: Likewise, over as many or more.

    Returns:
        None where it does not come to that loss.

    Example:
        >>> written = [(0, 4.0), (10, 3.0), (20, 2.0)]
        >>> samples_to_loss_ratio([written], [[(0, 4.0), (20, 3.0), (40, 2.0)]])
        2.0
    """
    target, given = statistics.fmean(final_losses(original)), original[0][-1][0]
    points = [
        (each[0][0], statistics.fmean(loss for _, loss in each))
        for each in zip(*candidate, strict=True)
    ]
    for (begun, before), (ended, after) in itertools.pairwise(points):
        if after <= target < before:
            share = (before - target) / (before - after)
            return float((begun + (ended - begun) * share) / given)
    return None


def final_losses(curves: Sequence[LossCurve]) -> list[float]:
    """Where each of them comes to."""
    return [curve[-1][1] for curve in curves]


def are_finite(curves: Sequence[LossCurve]) -> bool:
    """No loss on the way is NaN or infinite."""
    return all(math.isfinite(loss) for curve in curves for _, loss in curve)


def _proof(passed: bool, detail: str) -> Proof:
    return Proof(kind="training", passed=passed, detail=detail)
