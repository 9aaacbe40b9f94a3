"""What so many of so many say of the share behind them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

_TAIL: Final = 0.025
_HALVINGS: Final = 60


def interval(hits: int, tries: int) -> tuple[float, float]:
    """The exact 95 % interval of a share (Clopper and Pearson, 1934).

    Example:
        >>> [round(end, 3) for end in interval(1, 20)]
        [0.001, 0.249]
        >>> [round(end, 3) for end in interval(0, 20)]
        [0.0, 0.168]
    """
    low = 0.0 if hits == 0 else _rising(lambda p: 1 - _at_most(hits - 1, tries, p))
    high = 1.0 if hits == tries else 1 - _rising(lambda q: _at_most(hits, tries, 1 - q))
    return low, high


def _at_most(hits: int, tries: int, share: float) -> float:
    chances = (math.comb(tries, k) * share**k * (1 - share) ** (tries - k) for k in range(hits + 1))
    return math.fsum(chances)


def _rising(chance: Callable[[float], float]) -> float:
    """Where a chance that grows from 0 to 1 reaches the tail."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) < _TAIL else (low, middle)
    return low
