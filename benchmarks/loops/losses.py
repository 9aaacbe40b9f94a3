"""The losses that two runs of a script printed, side by side. Pure."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Final

_LOSS: Final = re.compile(r"loss ((?:-?[\d.]+(?:e[+-]?\d+)?|nan|inf)(?: -?[\d.]+)*)")


def printed(lines: Sequence[str]) -> tuple[float, ...]:
    """All losses, in the order of printing."""
    found = (match[1].split() for line in lines if (match := _LOSS.search(line)))
    return tuple(float(each) for each in itertools.chain.from_iterable(found))


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    """The largest difference, relative to the loss; infinite where as many were not printed.

    Example:
        >>> apart([2.0, 1.0], [2.0, 1.1])
        0.1
    """
    if len(one) != len(other) or not one:
        return math.inf
    return max(_apart(a, b) for a, b in zip(one, other, strict=True))


def _apart(one: float, other: float) -> float:
    if one == other:
        return 0.0
    return round(abs(one - other) / abs(one), 9) if one else math.inf
