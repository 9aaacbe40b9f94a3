"""``exact`` and ``rounding`` for the training step: same batches, same start, compare the weights.

Exact: the weights and optimizer slots after N steps are equal bit for bit. Where two runs of the
*original* already differ a little (kernels that add up in any order, as a GPU's do), exactness
cannot be judged, and the next row decides; where they differ by more than that, nothing is proved.
Adam takes a whole step by the sign of a gradient that is nothing but rounding, and two such runs
are soon far apart: then their first losses tell whether they draw random numbers, which no rounding
does, and the variables that repeat themselves tell what was learned. Numbers that nobody can seed,
drawn for the update alone, escape the first loss: where they are small, they pass for rounding.

Rounding: the same mathematics in another order of operations. How far that may carry a training is
the training's own affair, so the band is measured: the original is run again from weights nudged
by a few units in the last place, and the candidate must not stray further than they do: not as a
whole, and, because one large variable would hide all others, not in any single one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from uncork.core.documents.plan import Proof
from uncork.core.edits.edit import Guarantee
from uncork.training.state.arrays import ReplayResult

# Units in the last place of one nudge: what summing some 64 terms in another order does.
NUDGE_UNITS: Final = 8
NUDGED_RUNS: Final = 3
# Relative distance of the weights. Kernels that add up in any order stay below it for so few steps;
# beyond it, a step draws random numbers that nobody can set, and any band would be theirs.
_REPEATABLE: Final = 1e-4
# Of a training that goes astray by rounding: what Adam makes of it is not the same each time.
DIVERGING_RUNS: Final = 6
# Relative, of the loss of the very first step: what kernels that add up in any order leave of it.
_SAME_LOSS: Final = 1e-5
# Of the way that the weights go, what must be gone by variables that repeat themselves.
_TELLING: Final = 0.5
TOO_LITTLE_MOVEMENT: Final = "the weights change too little to detect a diverging training"
# A reordered kernel rounds differently in every step, the nudge only in the first.
_SLACK: Final = 4.0
# The same for single variables: of many, the one that strays most is further out than their mean.
_SLACK_EACH: Final = 16.0


def refuse_unrepeatable(
    original: ReplayResult, repeat: ReplayResult, kind: Guarantee
) -> Proof | None:
    """Refuse to compare with anything what is too far from itself; None where it is not."""
    if original.is_equal_to(repeat) or original.distance(repeat) <= _REPEATABLE:
        return None
    return Proof(kind=kind, passed=False, detail="two runs of the step itself differ")


def differs_only_by_rounding(first: ReplayResult, repeat: ReplayResult) -> bool:
    """Whether two runs of a first step, from the same weights, differ by rounding alone.

    Example:
        >>> differs_only_by_rounding(ReplayResult((0.69314,), []), ReplayResult((0.693141,), []))
        True
        >>> differs_only_by_rounding(ReplayResult((0.69314,), []), ReplayResult((0.7,), []))
        False
    """
    pairs = list(zip(first.losses, repeat.losses, strict=True))
    return bool(pairs) and all(math.isclose(a, b, rel_tol=_SAME_LOSS) for a, b in pairs)


def can_detect_divergence(
    start: ReplayResult, original: ReplayResult, repeats: Sequence[ReplayResult]
) -> bool:
    """Whether a training that strays from these runs would be seen to.

    Args:
        start: Weights and state from which all of them began.
        original: Of the script as written.
        repeats: Of the same; or nudged, which go astray no less.
    """
    ways = original.learned_distances(start)
    apart = [
        max(gaps)
        for gaps in zip(*(original.learned_distances(run) for run in repeats), strict=True)
    ]
    clear = [way for way, gap in zip(ways, apart, strict=True) if 2 * _SLACK_EACH * gap <= way]
    gone = math.hypot(*ways)
    return gone > 0 and math.hypot(*clear) ** 2 >= _TELLING * gone**2


def prove_exact(
    original: ReplayResult, repeat: ReplayResult, candidate: ReplayResult, steps: int
) -> Proof | None:
    """Bitwise proof; None when the original does not even agree with itself."""
    if not original.is_equal_to(repeat):
        return None
    passed = original.is_equal_to(candidate)
    how = "equal" if passed else f"differ by {original.distance(candidate):.1e}"
    detail = f"weights and optimizer state after {steps} steps {how} bit for bit"
    if not passed:
        detail = f"weights after {steps} steps {how}; two runs of the original are equal"
    return Proof(kind="exact", passed=passed, detail=detail)


def prove_rounding(
    original: ReplayResult, nudged_runs: list[ReplayResult], candidate: ReplayResult, steps: int
) -> Proof:
    """The candidate stays as close to the original as the original to its nudged self."""
    band = _SLACK * max(original.distance(run) for run in nudged_runs)
    apart = original.distance(candidate)
    losses = max(
        (abs(a - b) for a, b in zip(original.losses, candidate.losses, strict=True)), default=0.0
    )
    strayed = _strayed(original, nudged_runs, candidate) if candidate.is_finite else 0
    alone = f"; variables that diverge further: {strayed}" if strayed else ""
    return Proof(
        kind="rounding",
        passed=candidate.is_finite and apart <= band and not strayed,
        detail=(
            f"after {steps} steps the weights differ by {apart:.1e} (relative), the band from "
            f"{len(nudged_runs)} nudged runs is {band:.1e}; largest loss difference "
            f"{losses:.1e}{alone}"
        ),
    )


def _strayed(original: ReplayResult, nudged: list[ReplayResult], candidate: ReplayResult) -> int:
    """How many variables are further out than their own nudged selves."""
    bands = [
        max(gaps)
        for gaps in zip(*(original.variable_distances(run) for run in nudged), strict=True)
    ]
    # A variable that no nudge reaches may still be rounded otherwise.
    least = [
        NUDGE_UNITS * float(np.finfo(np.float32).eps) * size for size in original.variable_norms
    ]
    gaps = zip(original.variable_distances(candidate), bands, least, strict=True)
    return sum(gap > _SLACK_EACH * max(band, floor) for gap, band, floor in gaps)


def create_nudge(seed: int) -> Callable[[Any], None]:
    """A function that moves every trainable weight by some units, up or down at random."""
    signs = np.random.default_rng(seed)

    def disturb(model: Any) -> None:
        for variable in model.trainable_variables:
            value = np.asarray(variable.numpy())
            unit = float(np.spacing(np.ones((), value.dtype)))
            sign = signs.choice(np.array([-1.0, 1.0]), size=value.shape)
            variable.assign((value * (1 + NUDGE_UNITS * unit * sign)).astype(value.dtype))

    return disturb
