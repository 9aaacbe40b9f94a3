"""Train a few steps from one snapshot on recorded batches: what two versions are compared by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from uncork.training.state.snapshot import FLOAT_KINDS

Arrays = list[np.ndarray[Any, Any]]


@dataclass(frozen=True)
class ReplayResult:
    """One short training.

    Attributes:
        losses: Mean loss of each window of steps, in order.
        weights: Weights and optimizer slots at the end.
        is_loss_comparable: These losses say how good the training is.
        constant_positions: Positions of weights that were infinite from the beginning, as what
            masks others is: compared by their bits, and no sign that a training has failed.
        learned_positions: Positions of weights that are to learn, and of slots; empty where none is
            told.
    """

    losses: tuple[float, ...]
    weights: Arrays
    is_loss_comparable: bool = True
    constant_positions: frozenset[int] = frozenset()
    learned_positions: frozenset[int] = frozenset()

    @property
    def is_finite(self) -> bool:
        """No NaN or infinity in losses or weights."""
        return bool(
            np.isfinite(self.losses).all() and all(np.isfinite(w).all() for w in _floats(self))
        )

    def is_equal_to(self, other: ReplayResult) -> bool:
        """Bit for bit, NaN included."""
        pairs = zip(self.weights, other.weights, strict=True)
        return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)

    def distance(self, other: ReplayResult) -> float:
        """Relative Euclidean distance of the weights.

        Infinite when one is not finite, or when counts differ: rounding does not touch those.
        """
        if not (self.is_finite and other.is_finite and _counts(self) == _counts(other)):
            return math.inf
        apart, size = (
            math.hypot(*lengths)
            for lengths in (self.variable_distances(other), self.variable_norms)
        )
        if not size:
            return math.inf if apart else 0.0
        return apart / size

    def variable_distances(self, other: ReplayResult) -> tuple[float, ...]:
        """Euclidean distance of each variable on its own, in its own units."""
        pairs = zip(_floats(self), _floats(other), strict=True)
        return tuple(float(np.linalg.norm(a - b)) for a, b in pairs)

    def learned_distances(self, other: ReplayResult) -> tuple[float, ...]:
        """The same of those that are to learn: what counts or averages moves whatever they do."""
        asked = self.learned_positions or frozenset(range(len(self.weights)))
        numbers = [n for n in range(len(self.weights)) if _is_number(self, n)]
        each = zip(numbers, self.variable_distances(other), strict=True)
        return tuple(gap for n, gap in each if n in asked)

    @property
    def variable_norms(self) -> tuple[float, ...]:
        """Euclidean length of each variable."""
        return tuple(float(np.linalg.norm(w)) for w in _floats(self))


def _floats(run: ReplayResult) -> Arrays:
    return [w.astype(np.float64) for n, w in enumerate(run.weights) if _is_number(run, n)]


def _counts(run: ReplayResult) -> list[bytes]:
    return [w.tobytes() for n, w in enumerate(run.weights) if not _is_number(run, n)]


def _is_number(run: ReplayResult, position: int) -> bool:
    return (
        run.weights[position].dtype.kind in FLOAT_KINDS and position not in run.constant_positions
    )
