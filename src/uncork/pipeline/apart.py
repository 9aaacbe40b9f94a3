"""A copy of a pipeline that shares no state with the user's objects."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.pipeline.kinds import COUNTING_SOURCES, Dataset, kind_of
from uncork.pipeline.rebuild import make
from uncork.pipeline.remade import remade
from uncork.pipeline.tree import Node, Pipeline, read


def apart(pipeline: Pipeline) -> Pipeline:
    """Every known node made anew: reading the copy moves on no shuffle and fills no cache.

    What a class that Uncork does not know stands on is still the user's own.

    Example:
        >>> import tensorflow as tf
        >>> numbers = tf.data.Dataset.range(5).shuffle(5, seed=1)
        >>> _ = list(apart(read(numbers)).dataset)  # the first epoch of the copy
        >>> list(numbers) == list(tf.data.Dataset.range(5).shuffle(5, seed=1))
        True
    """
    return read(remade(pipeline.root, _copy))


def _copy(node: Node, inputs: Sequence[Dataset]) -> Dataset:
    kind = kind_of(node.dataset)
    if kind.op is None or not (inputs or kind.name in COUNTING_SOURCES):
        return node.dataset
    return make(node.dataset, inputs, kind)
