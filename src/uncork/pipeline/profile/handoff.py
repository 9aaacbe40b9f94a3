"""Stages that cost little beside what they are made from, timed on elements that are there already.

The cost of a stage is what it takes with all that it is made from, less what that takes by itself.
For a shuffle, a batch, a map that only renames, that difference is luck: TensorFlow hands each call
of a map below to another thread, which sleeps sometimes, and the next stage would be charged for
it.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_fields import parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.pipeline.ir.builders import memory_cache, serial_map
from uncork.pipeline.ir.node import Node
from uncork.pipeline.profile.probes import (
    Probe,
    count_elements,
    element_bytes,
    run_serially,
    serial_copy,
)
from uncork.pipeline.transforms.vectorize import batch_size_of

# More would have to be made first, by stages that may be slow, and kept in memory.
_SOME: Final = 16
_KEPT_BYTES: Final = 32 * 2**20
# Stages that give some of the elements that they are given, each as it is.
SELECTING_KINDS: Final = frozenset({
    "shuffle", "filter", "repeat", "take", "skip", "shard", "prefetch", "options",
    "assert_cardinality", "take_while", "unique",
})  # fmt: skip


@dataclass(frozen=True)
class IsolatedProbe:
    """A stage on a few elements in memory, which come again and again.

    Attributes:
        input_probe: Probe of those elements.
        output_probe: Probe of what the stage makes of them.
        input_ratio: Elements that it takes for one of its own.
    """

    input_probe: Probe
    output_probe: Probe
    input_ratio: float

    def medians(self) -> tuple[float, float] | None:
        """CPU and elapsed seconds for one of the stage's elements; None when none was pulled.

        Of a filter for one of those that it is given.
        """
        given, handed_on = self.input_probe.medians(), self.output_probe.medians()
        if given is None or handed_on is None:
            return None
        cpu_s, wall_s = (
            max(0.0, b - self.input_ratio * a) for a, b in zip(given, handed_on, strict=True)
        )
        return cpu_s, wall_s


def create_isolated_probe(
    node: Node, input_dataset: Dataset, *, budget_s: float
) -> IsolatedProbe | None:
    """How a shuffle, a batch, a filter or a map is timed by itself.

    Args:
        node: Any stage.
        input_dataset: What it reads, or any dataset of such elements.
        budget_s: Seconds for making a few of its elements, of which one is waited for.

    Returns:
        None for a stage of another kind; where there is no element, or an error.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> numbers = tf.data.Dataset.range(9)
        >>> create_isolated_probe(
        ...     read_pipeline(numbers.shuffle(9)).root, numbers, budget_s=1.0
        ... ).input_ratio
        1.0
        >>> create_isolated_probe(
        ...     read_pipeline(numbers.take(2)).root, numbers, budget_s=1.0
        ... ) is None
        True
    """
    if node.kind not in ("shuffle", "batch", "map", "filter"):
        return None
    ratio = float(batch_size_of(node)) if node.kind == "batch" else 1.0
    number = _made_within(budget_s, run_serially(input_dataset.take(_SOME)))
    if not number:
        return None
    some = memory_cache(run_serially(input_dataset.take(number)))
    if not count_elements(some, budget_s=math.inf):
        return None
    endless = some.repeat()
    if node.kind == "filter":  # only asked, as it may let none of these pass
        asked = serial_map(endless, parameter(node.dataset, "predicate"), node.dataset)
        return IsolatedProbe(Probe(endless), Probe(asked), ratio)
    return IsolatedProbe(Probe(endless), Probe(serial_copy(node, [endless])), ratio)


def _made_within(seconds: float, dataset: Dataset) -> int:
    """How many elements there are by then that need little room, the first one waited for."""
    number, kept, deadline = 0, 0, time.monotonic() + seconds
    with suppress(tf.errors.OpError):
        for element in dataset:
            number, kept = number + 1, kept + element_bytes(element)
            if kept > _KEPT_BYTES or time.monotonic() > deadline:
                break
    return number
