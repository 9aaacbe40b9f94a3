"""Stages that do more at once, or less ahead, than they were told to."""

from __future__ import annotations

import math

import tensorflow as tf

from uncork.core.errors import EditRefused
from uncork.core.stage import AUTOTUNE
from uncork.measure.machine import cpus
from uncork.pipeline.calls import CALLS
from uncork.pipeline.concurrency import readers, told_ahead
from uncork.pipeline.kinds import Dataset, kind_of
from uncork.pipeline.legality import errors_are_ignored
from uncork.pipeline.nodes import parallel_interleave
from uncork.pipeline.rebuild import make
from uncork.pipeline.tree import Node, Pipeline


def interleave_in_parallel(pipeline: Pipeline, node: Node, stage: int) -> Dataset:
    """A serial interleave with a thread for each of the inputs that are open at once.

    In parallel, an element that fails takes its input's turn; otherwise it does not.

    Raises:
        EditRefused: It is none, its inputs may not be read side by side, or errors are ignored.
    """
    if errors_are_ignored(pipeline, stage):
        raise EditRefused(
            f"errors of {node} are ignored further up, and in parallel others follow a bad element",
            "errors that end the pass",
            "leave it serial",
        )
    cycle = readers(node)
    if cycle is None:
        raise EditRefused(
            f"{node} is no interleave whose inputs could be read in parallel",
            "a serial one of several inputs that draw no random numbers and keep no state",
            "leave it serial",
        )
    return parallel_interleave(node.inputs[0].dataset, node.dataset, cycle)


def less_ahead(node: Node) -> Dataset:
    """A prefetch or a parallel map that prepares as much as its threads need, not as it was told.

    Raises:
        EditRefused: It was told nothing.
    """
    dataset, fields = node.dataset, {}
    if node.kind == "prefetch" and told_ahead(node) is not None:
        fields["_buffer_size"] = tf.constant(AUTOTUNE, tf.int64)
    elif node.kind == "map" and hasattr(dataset, CALLS) and node.parallelism != AUTOTUNE:
        # A machine with more cores leaves more calls, up to those that were asked for.
        fields[CALLS] = tf.constant(min(node.parallelism or 1, math.ceil(cpus())), tf.int64)
    else:
        raise EditRefused(
            f"{node} was not told how much to prepare ahead",
            "a prefetch or a parallel map with a number",
            "leave it as it is",
        )
    return make(dataset, [node.inputs[0].dataset], kind_of(dataset), **fields)
