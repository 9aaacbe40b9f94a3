"""How many calls of a parallel map are under way where tf.data's autotuner does not choose.

``AUTOTUNE`` then means one call for each core. A map whose calls are brief spends more time on
waking the thread that waits for it than on its work: with some calls done ahead nobody sleeps. Of
photographs that come from memory, to be flipped and scaled, sixteen calls on two cores make 1.4
times as many a second as two (TensorFlow 2.21).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import tensorflow as tf

from uncork.core.stage import AUTOTUNE
from uncork.measure.machine import cpus
from uncork.pipeline.effects import is_order_free
from uncork.pipeline.kinds import Dataset, kind_of
from uncork.pipeline.rebuild import make, rebuild
from uncork.pipeline.remade import remade
from uncork.pipeline.tree import Node, read

CALLS: Final = "_num_parallel_calls"
_PER_CORE: Final = 8
# What the results of all calls may take together.
_MOST_BYTES: Final = 64e6


def with_calls(dataset: Dataset) -> Dataset:
    """The same with enough calls under way, where the autotuner is off; itself where it is on.

    Example:
        >>> numbers = tf.data.Dataset.range(4).map(lambda x: x + 1, num_parallel_calls=AUTOTUNE)
        >>> with_calls(numbers) is numbers
        True
        >>> options = tf.data.Options()
        >>> options.autotune.enabled = False
        >>> read(with_calls(numbers.with_options(options))).stages[1].parallelism > cpus()
        True
    """
    if dataset.options().autotune.enabled is not False:
        return dataset

    def made(node: Node, inputs: Sequence[Dataset]) -> Dataset:
        calls = _calls(node)
        if calls is None:
            return rebuild(node.dataset, inputs) if inputs else node.dataset
        fields = {CALLS: tf.constant(calls, tf.int64)}
        return make(node.dataset, inputs, kind_of(node.dataset), **fields)

    return remade(read(dataset).root, made)


def _calls(node: Node) -> int | None:
    """Of a parallel map that leaves the number open; None where it is to stay open.

    What draws, keeps state or runs Python is left alone: ahead of a pass that is left early it
    would do more of that.
    """
    if node.kind != "map" or node.parallelism != AUTOTUNE or not hasattr(node.dataset, CALLS):
        return None
    each = _bytes(node.dataset.element_spec)
    if each is None or not is_order_free(node.functions[0]):
        return None
    cores = math.ceil(cpus())
    return max(cores, min(_PER_CORE * cores, int(_MOST_BYTES // max(each, 1))))


def _bytes(spec: object) -> int | None:
    """Of one element; None where its spec does not tell."""
    leaves = tf.nest.flatten(spec)
    if not all(isinstance(s, tf.TensorSpec) and s.shape.is_fully_defined() for s in leaves):
        return None
    return sum(int(s.shape.num_elements() * s.dtype.size) for s in leaves)
