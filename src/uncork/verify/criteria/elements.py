"""``exact`` and ``resampled`` for input pipelines: run both versions and compare what they give.

Exact: a twin of the original with all draws seeded, and the same twin rewritten by the very code
that rewrites the user's pipeline, give the same elements in the same order, errors and ends
included, in two passes, or in a long one where there is no end. Seeding both takes chance out of
the comparison without touching the work.

Resampled: the rewrite may hand the draws to other elements. Both twins are then run one call at a
time, so that equal draws meet equal elements, and must agree.

Rounding: a kernel that is given a whole batch may add up in another order. The same twins, run side
by side, must differ in floating-point numbers alone, and there by no more than a few times the
spacing of numbers at the largest of the same row.

Alive: a seeded op repeats itself in every pass, so twins cannot show an augmentation that froze.
That is asked of the real pipelines: as many samples may come back unchanged in the second pass as
did in the original, not more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Guarantee
from uncork.pipeline.equivalence.closeness import Closeness
from uncork.pipeline.equivalence.digests import ElementDigests, EpochDigests

# Elements that must have been compared before a comparison cut short by time counts.
MIN_ELEMENTS: Final = 4
# What is said where there was too little time: nothing speaks against the edit.
TOO_FEW_COMPARED: Final = "could be compared in the available time"
# Samples of two passes that must have been compared to tell whether they are drawn anew.
_FEWEST: Final = 2
# Standard deviations of chance: one false alarm in ten thousand proofs, given some hundred samples.
_CHANCE: Final = 4.0
# Spacings of numbers, at the largest one of a row, that sums in another order are taken to differ.
_ROUNDINGS: Final = 16.0


def prove_elements(
    original: ElementDigests,
    edited: ElementDigests,
    kind: Guarantee,
    *,
    require_complete: bool,
    min_elements: int = MIN_ELEMENTS,
) -> Proof:
    """Compare passes one by one.

    Args:
        original: Of the seeded twin.
        edited: Of the rewritten twin.
        kind: What is being proved; the comparison is the same.
        require_complete: Passes must have been complete: what a cache holds shows only after its
            first.
        min_elements: Elements of each pass that must have been compared where it need not be
            complete.
    """
    for number, (ours, theirs) in enumerate(zip(original.epochs, edited.epochs, strict=True), 1):
        failure = _difference(ours, theirs, math.inf if require_complete else min_elements)
        if failure:
            return Proof(kind=kind, passed=False, detail=f"epoch {number}: {failure}")
    extent = "all" if original.is_complete else "the first"
    passes = f" of {len(original.epochs)} epochs" if len(original.epochs) > 1 else ""
    return Proof(
        kind=kind,
        passed=True,
        detail=(
            f"{extent} {original.element_count} batches{passes} are equal, in the same order, "
            "with equal seeds"
        ),
    )


def prove_elements_close(
    closeness: Closeness, *, require_complete: bool, min_elements: int = MIN_ELEMENTS
) -> Proof:
    """Whether two pipelines differ by rounding alone.

    Args:
        closeness: Of the seeded twin and the rewritten one.
        require_complete: Passes must have been complete.
        min_elements: Elements that must have been compared where they need not be.

    Example:
        >>> apart = Closeness(element_count=40, max_ulps=2.5, failure="", is_complete=True)
        >>> prove_elements_close(apart, require_complete=False).detail
        '40 batches with equal seeds differ by at most 2.5 roundings'
    """
    if closeness.failure:
        return Proof(kind="rounding", passed=False, detail=closeness.failure)
    if not closeness.is_complete and (require_complete or closeness.element_count < min_elements):
        detail = f"only {closeness.element_count} batches {TOO_FEW_COMPARED}"
        return Proof(kind="rounding", passed=False, detail=detail)
    roundings = f"at most {closeness.max_ulps:.1f} roundings"
    said = f"{closeness.element_count} batches with equal seeds differ by {roundings}"
    within = closeness.max_ulps <= _ROUNDINGS
    return Proof(
        kind="rounding",
        passed=within,
        detail=said if within else f"{said}; another order may cause {_ROUNDINGS:g}",
    )


def frozen_randomness_reason(
    original: Sequence[Sequence[str]], edited: Sequence[Sequence[str]]
) -> str:
    """Why the randomness looks frozen; empty when it is as alive as it was.

    Args:
        original: Digests of single samples in passes over the user's pipeline: two, or more where
            there are few samples.
        edited: The same of the rewritten one.

    Example:
        >>> frozen_randomness_reason([["a", "b"], ["c", "d"]], [["a", "b"], ["b", "a"]])
        '100% of samples are unchanged in the second epoch, 0% originally'
        >>> frozen_randomness_reason([["a", "b"], ["c", "d"]], [["a", "b"], ["x", "y"]])
        ''
    """
    # A faster pipeline gets further in the same time. Of a shuffled one, longer passes have more in
    # common, so all are cut to one length.
    length = min(map(len, (*original, *edited)))
    was, now = (_repeated([p[:length] for p in passes]) for passes in (original, edited))
    samples = length * (min(len(original), len(edited)) - 1)
    if samples < _FEWEST:  # nothing can be frozen where there is nothing
        return f"only {samples} samples {TOO_FEW_COMPARED}" if any(original) else ""
    if now > min(was + _chance(was, now, samples), (1 + was) / 2):
        return f"{now:.0%} of samples are unchanged in the second epoch, {was:.0%} originally"
    return ""


def _chance(was: float, now: float, samples: int) -> float:
    """How far two shares of equally alive pipelines lie apart by chance."""
    pooled = (was + now) / 2
    return _CHANCE * math.sqrt(2 * max(pooled * (1 - pooled), 1 / samples) / samples)


def _repeated(passes: Sequence[Sequence[str]]) -> float:
    """Share of samples that a pass has in common with the one before."""
    counted = [Counter(p) for p in passes]
    common = sum((a & b).total() for a, b in pairwise(counted))
    return common / max(1, sum(min(a.total(), b.total()) for a, b in pairwise(counted)))


def _difference(ours: EpochDigests, theirs: EpochDigests, least: float) -> str:
    """What tells two passes apart; empty when nothing does."""
    if ours.error != theirs.error:
        return f"the original ends with {_ending(ours)}, the rewrite with {_ending(theirs)}"
    pairs = zip(ours.digests, theirs.digests, strict=False)
    wrong = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if wrong is not None:
        return f"element {wrong} differs"
    lengths = len(ours.digests), len(theirs.digests)
    if _ended(ours) and _ended(theirs):
        return "" if lengths[0] == lengths[1] else f"{lengths[1]} elements, not {lengths[0]}"
    shorter, longer = (ours, theirs) if lengths[0] < lengths[1] else (theirs, ours)
    if _ended(shorter) and len(longer.digests) > len(shorter.digests):
        return f"one ends after {min(lengths)} elements, the other continues"
    if min(lengths) < least:
        return f"only {min(lengths)} elements {TOO_FEW_COMPARED}"
    return ""


def _ended(epoch: EpochDigests) -> bool:
    """By itself or with an error, not by our limit."""
    return epoch.is_complete or epoch.error is not None


def _ending(epoch: EpochDigests) -> str:
    return f"{epoch.error.type} at element {epoch.error.index}" if epoch.error else "no error"
