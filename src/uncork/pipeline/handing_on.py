"""What it costs to hand elements on: stages that make none, timed on some that are there already.

The cost of a stage is what it takes with all that it is made from, less what that takes by itself.
For stages that cost next to nothing that difference is luck: TensorFlow hands each call of a map
below to another thread, which sleeps sometimes, and the next stage would be charged for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from uncork.pipeline.kinds import Dataset
from uncork.pipeline.nodes import memory_cache
from uncork.pipeline.probes import Probe, count, serial_twin, serially
from uncork.pipeline.tree import Node
from uncork.pipeline.vectorize import batch_size

# More would have to be made first, by stages that may be slow.
_SOME: Final = 4


@dataclass(frozen=True)
class Handed:
    """A stage on a few elements in memory, which come again and again.

    Attributes:
        given: Probe of those elements.
        handed_on: Probe of what the stage makes of them.
        ratio: Elements that it takes for one of its own.
    """

    given: Probe
    handed_on: Probe
    ratio: float

    def medians(self) -> tuple[float, float] | None:
        """CPU and elapsed seconds for one of the stage's elements; None when none was pulled."""
        given, handed_on = self.given.medians(), self.handed_on.medians()
        if given is None or handed_on is None:
            return None
        cpu_s, wall_s = (
            max(0.0, b - self.ratio * a) for a, b in zip(given, handed_on, strict=True)
        )
        return cpu_s, wall_s


def handed(node: Node, below: Dataset, *, budget_s: float) -> Handed | None:
    """How a stage that hands on its elements is timed.

    Args:
        node: Any stage.
        below: What it reads.
        budget_s: Seconds for making a few of its elements.

    Returns:
        None for a stage that makes other elements of them; where there was no time, or an error.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.tree import read
        >>> numbers = tf.data.Dataset.range(9)
        >>> handed(read(numbers.shuffle(9)).root, numbers, budget_s=1.0).ratio
        1.0
        >>> handed(read(numbers.map(lambda x: x + 1)).root, numbers, budget_s=1.0) is None
        True
    """
    if node.kind not in ("shuffle", "batch"):
        return None
    ratio = 1.0 if node.kind == "shuffle" else float(batch_size(node))
    some = memory_cache(serially(below.take(_SOME)))
    if not count(some, budget_s=budget_s):
        return None
    endless = some.repeat()
    return Handed(Probe(endless), Probe(serial_twin(node, [endless])), ratio)
