"""Train a few steps from one snapshot on recorded batches: what two versions are compared by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from uncork.training.state.snapshot import FLOATS

Arrays = list[np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Replay:
    """One short training.

    Attributes:
        losses: Mean loss of each window of steps, in order.
        weights: Weights and optimizer slots at the end.
        judged: These losses say how good the training is.
        constants: Positions of weights that were infinite from the beginning, as what masks others
            is: compared by their bits, and no sign that a training has failed.
        learning: Positions of weights that are to learn, and of slots; empty where none is told.
    """

    losses: tuple[float, ...]
    weights: Arrays
    judged: bool = True
    constants: frozenset[int] = frozenset()
    learning: frozenset[int] = frozenset()

    @property
    def finite(self) -> bool:
        """No NaN or infinity in losses or weights."""
        return bool(
            np.isfinite(self.losses).all() and all(np.isfinite(w).all() for w in _floats(self))
        )

    def equals(self, other: Replay) -> bool:
        """Bit for bit, NaN included."""
        pairs = zip(self.weights, other.weights, strict=True)
        return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)

    def distance(self, other: Replay) -> float:
        """Relative Euclidean distance of the weights.

        Infinite when one is not finite, or when counts differ: rounding does not touch those.
        """
        if not (self.finite and other.finite and _counts(self) == _counts(other)):
            return math.inf
        apart, size = (math.hypot(*lengths) for lengths in (self.gaps(other), self.sizes))
        if not size:
            return math.inf if apart else 0.0
        return apart / size

    def gaps(self, other: Replay) -> tuple[float, ...]:
        """Euclidean distance of each variable on its own, in its own units."""
        pairs = zip(_floats(self), _floats(other), strict=True)
        return tuple(float(np.linalg.norm(a - b)) for a, b in pairs)

    def ways(self, other: Replay) -> tuple[float, ...]:
        """The same of those that are to learn: what counts or averages moves whatever they do."""
        asked = self.learning or frozenset(range(len(self.weights)))
        numbers = [n for n in range(len(self.weights)) if _is_number(self, n)]
        each = zip(numbers, self.gaps(other), strict=True)
        return tuple(gap for n, gap in each if n in asked)

    @property
    def sizes(self) -> tuple[float, ...]:
        """Euclidean length of each variable."""
        return tuple(float(np.linalg.norm(w)) for w in _floats(self))


def _floats(run: Replay) -> Arrays:
    return [w.astype(np.float64) for n, w in enumerate(run.weights) if _is_number(run, n)]


def _counts(run: Replay) -> list[bytes]:
    return [w.tobytes() for n, w in enumerate(run.weights) if not _is_number(run, n)]


def _is_number(run: Replay, position: int) -> bool:
    return run.weights[position].dtype.kind in FLOATS and position not in run.constants
