"""Single samples of a batched dataset, as digests that do not depend on their place in a batch."""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from uncork.pipeline.equivalence.digests import element_digest
from uncork.pipeline.equivalence.seeded_twin import preserve_state
from uncork.pipeline.functions.effects import is_deterministic
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline, read_pipeline


def has_random_functions(pipeline: Pipeline) -> bool:
    """Some function of this pipeline draws random numbers or keeps state; shuffles do not count."""
    return _draws(pipeline.root)


def _draws(node: Node) -> bool:
    own = any(not is_deterministic(function) for function in node.functions)
    return own or any(_draws(below) for below in node.inputs)


def sample_digests(dataset: Any, *, epochs: int, max_s: float) -> list[list[str]]:
    """Digests of all samples of some passes, batches taken apart along their first dimension.

    Elements whose leaves do not all have one batch dimension are digested whole.

    Example:
        >>> batched = tf.data.Dataset.range(4).batch(2)
        >>> first, second = sample_digests(batched, epochs=2, max_s=5)
        >>> len(first), first == second
        (4, True)
    """
    with preserve_state(read_pipeline(dataset)):
        return [_pass(dataset, max_s / epochs) for _ in range(epochs)]


def _pass(dataset: Any, max_s: float) -> list[str]:
    found: list[str] = []
    deadline = time.monotonic() + max_s
    for element in dataset:
        found.extend(element_digest(sample) for sample in _apart(element))
        if time.monotonic() > deadline:
            break
    return found


def _apart(element: Any) -> list[Any]:
    leaves = tf.nest.flatten(element)
    if not all(isinstance(t, tf.Tensor) for t in leaves):
        return _rows(element)
    sizes = {int(t.shape[0]) for t in leaves if t.shape.rank}
    if len(sizes) != 1 or not all(t.shape.rank for t in leaves):
        return [element]
    return [tuple(t[i] for t in leaves) for i in range(sizes.pop())]


def _rows(element: Any) -> list[Any]:
    """Of ragged and sparse tensors, which tf.data knows how to take apart."""
    try:
        return list(tf.data.Dataset.from_tensors(element).unbatch())
    except (ValueError, tf.errors.OpError):  # no batch, or none of one size
        return [element]
