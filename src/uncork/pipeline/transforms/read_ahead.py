"""Files, or other inputs, that are gone through one after the other, read by several threads.

Where a stage ends with one input before it begins with the next, as a list of record files does,
others could be read meanwhile, and held until it is their turn. An interleave whose blocks are
longer than any input gives their elements in the very same order.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from uncork.compat.tfdata.dataset_classes import kind_of
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import ReadAhead
from uncork.core.evidence.stage import ENDLESS
from uncork.measure.machine.probe import schedulable_cpus
from uncork.pipeline.analysis.legality import errors_are_ignored
from uncork.pipeline.functions.effects import is_order_free, reads_variables
from uncork.pipeline.ir.builders import interleave_of_whole
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import Pipeline

# At least so many, where nobody knows how many there are.
_UNKNOWN: Final = 64
# No input is as long.
_LONGEST: Final = 1 << 40


def in_turn(node: Node) -> int | None:
    """Inputs that a stage goes through one after the other, where each could have its own thread.

    None where there is but one, where several are open already, or where what they do depends on
    the order in which they do it. Of inputs without a known number there are said to be many.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read
        >>> three = tf.data.Dataset.range(3).flat_map(tf.data.Dataset.range)
        >>> in_turn(read(three).root), in_turn(read(three.batch(2)).root)
        (3, None)
    """
    made = _one_by_one(node)
    if made is None or not node.inputs:
        return None
    function = made._map_func.function
    if not is_order_free(function) or reads_variables(function):
        return None
    inputs = int(node.inputs[0].dataset.cardinality())
    if inputs == ENDLESS:
        return None  # as an interleave it would be known to be endless, and Keras counts by that
    inputs = inputs if inputs >= 0 else max(_UNKNOWN, schedulable_cpus())
    return inputs if inputs > 1 else None


def read_ahead(pipeline: Pipeline, node: Node, stage: int, edit: ReadAhead) -> Dataset:
    """What gives the elements of one input after the other, others read meanwhile.

    Raises:
        EditRefused: It does not go through several inputs in turn, these may not be read side by
            side, or errors are ignored.
    """
    if errors_are_ignored(pipeline, stage):
        raise EditRefused(
            f"errors of {node} are ignored further up, and in parallel others follow a bad element",
            "errors that end the pass",
            "leave it as it is",
        )
    inputs = in_turn(node)
    if inputs is None or edit.readers < 2 or edit.elements < 1:
        raise EditRefused(
            f"{node} does not go through inputs that could be read ahead",
            "files, or others, one after the other, that draw no random numbers and keep no state",
            "leave it as it is",
        )
    readers = min(edit.readers, inputs)
    made = _one_by_one(node)
    return interleave_of_whole(
        node.inputs[0].dataset, node.dataset, made, readers, _LONGEST, edit.elements
    )


def _one_by_one(node: Node) -> Any:
    """The dataset that opens one input after the other: the stage, or what a reader is made of."""
    made = vars(node.dataset).get("_impl", node.dataset)
    kind = kind_of(made).name
    if kind == "flat_map" and node.kind != "from_generator":
        return made
    alone = kind == "interleave" and node.parallelism == 1
    return made if alone and int(np.asarray(made._cycle_length)) == 1 else None
