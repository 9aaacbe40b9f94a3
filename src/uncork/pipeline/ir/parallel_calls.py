"""How many calls of a parallel map are under way where tf.data's autotuner does not choose.

``AUTOTUNE`` then means one call for each core. A map whose calls are brief spends more time on
waking the thread that waits for it than on its work: with some calls done ahead nobody sleeps. Of
photographs that come from memory, to be flipped and scaled, sixteen calls on two cores make 1.4
times as many a second as two (TensorFlow 2.21).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import tensorflow as tf

from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_fields import has_parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.dataset_rebuild import copy_with_fields, rebuild
from uncork.core.base.errors import EditRefused
from uncork.core.evidence.stage import AUTOTUNE
from uncork.measure.machine.probe import usable_cpus
from uncork.pipeline.functions.effects import has_variable_reads, is_order_free
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import read_pipeline, rebuild_tree

_PER_CORE: Final = 8
# Where a map remembers that the number of its calls was left open.
_OPEN: Final = "_uncork_calls"
# What all calls may take together: elements that they are given, or make.
_MOST_BYTES: Final = 64e6


def set_open_parallel_calls(dataset: Dataset) -> Dataset:
    """The same with enough calls under way, where the autotuner is off; itself where it is on.

    Only of maps that can be exchanged without making a cache or a shuffle anew.

    Example:
        >>> numbers = tf.data.Dataset.range(4).map(lambda x: x + 1, num_parallel_calls=AUTOTUNE)
        >>> set_open_parallel_calls(numbers) is numbers
        True
        >>> options = tf.data.Options()
        >>> options.autotune.enabled = False
        >>> read_pipeline(set_open_parallel_calls(numbers.with_options(options))).stages[
        ...     1
        ... ].parallelism > usable_cpus()
        True
    """
    if dataset.options().autotune.enabled is not False:
        return dataset
    root = read_pipeline(dataset).root
    calls = {id(node.dataset): _calls(node) for node in _exchangeable(root)}

    def made(node: Node, inputs: Sequence[Dataset]) -> Dataset:
        several = calls.get(id(node.dataset))
        if several is None:
            return rebuild(node.dataset, inputs) if inputs else node.dataset
        fields = {"num_parallel_calls": tf.constant(several, tf.int64), _OPEN: True}
        return copy_with_fields(node.dataset, inputs, kind_of(node.dataset), **fields)

    try:
        return rebuild_tree(root, made)
    except EditRefused:  # below a class that cannot be made anew: it goes on as it is
        return dataset


def has_open_parallel_calls(node: Node) -> bool:
    """Whether the number of its calls is no wish of the user's, but was chosen here."""
    return bool(getattr(node.dataset, _OPEN, False))


def _exchangeable(node: Node) -> Iterator[Node]:
    """What lies above all caches and shuffles, which are shared, and count, as the same objects."""
    if node.kind in ("cache", "shuffle"):
        return
    yield node
    for below in node.inputs:
        yield from _exchangeable(below)


def _calls(node: Node) -> int | None:
    """Of a parallel map that leaves the number open; None where it is to stay open.

    What draws, keeps state, reads a variable or runs Python is left alone: ahead of a pass that is
    left early it would do more of that, or see a variable too early.
    """
    if (
        node.kind != "map"
        or node.parallelism != AUTOTUNE
        or not has_parameter(node.dataset, "num_parallel_calls")
    ):
        return None
    sizes = [spec_bytes(node.inputs[0].dataset.element_spec), spec_bytes(node.dataset.element_spec)]
    function = node.functions[0]
    if None in sizes or not is_order_free(function) or has_variable_reads(function):
        return None
    cores, each = math.ceil(usable_cpus()), max(1, *(size or 0 for size in sizes))
    return max(cores, min(_PER_CORE * cores, int(_MOST_BYTES // each)))


def spec_bytes(spec: object) -> int | None:
    """Of one element; None where its spec does not tell."""
    leaves = tf.nest.flatten(spec)
    if not all(isinstance(s, tf.TensorSpec) and s.shape.is_fully_defined() for s in leaves):
        return None
    if not all(s.dtype.is_numpy_compatible and s.dtype != tf.string for s in leaves):
        return None
    return sum(int(s.shape.num_elements() * s.dtype.size) for s in leaves)
