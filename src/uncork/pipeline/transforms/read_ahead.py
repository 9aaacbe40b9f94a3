"""Files, or other inputs, that are gone through one after the other, read by several threads.

Where a stage ends with one input before it begins with the next, as a list of record files does,
others could be read meanwhile, and held until it is their turn. An interleave whose blocks are
longer than any input gives their elements in the very same order.
"""

from __future__ import annotations

from typing import Any, Final

from uncork.compat.tfdata.dataset_classes import implementation_of, kind_of
from uncork.compat.tfdata.dataset_fields import int_parameter, parameter
from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import ReadAhead
from uncork.core.evidence.stage import INFINITE_LENGTH
from uncork.measure.machine.probe import schedulable_cpus
from uncork.pipeline.analysis.legality import has_ignored_errors
from uncork.pipeline.functions.effects import has_variable_reads, is_order_free
from uncork.pipeline.ir.builders import read_ahead_interleave
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.tree import StageLocation

# At least so many, where nobody knows how many there are.
_UNKNOWN: Final = 64
# No input is as long.
_LONGEST: Final = 1 << 40


def count_sequential_inputs(node: Node) -> int | None:
    """Inputs that a stage goes through one after the other, where each could have its own thread.

    None where there is but one, where several are open already, or where what they do depends on
    the order in which they do it. Of inputs without a known number there are said to be many.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> three = tf.data.Dataset.range(3).flat_map(tf.data.Dataset.range)
        >>> (
        ...     count_sequential_inputs(read_pipeline(three).root),
        ...     count_sequential_inputs(read_pipeline(three.batch(2)).root),
        ... )
        (3, None)
    """
    made = sequential_reader_of(node)
    if made is None or not node.inputs:
        return None
    function = parameter(made, "map_func").function
    if not is_order_free(function) or has_variable_reads(function):
        return None
    inputs = int(node.inputs[0].dataset.cardinality())
    if inputs == INFINITE_LENGTH:
        return None  # as an interleave it would be known to be endless, and Keras counts by that
    inputs = inputs if inputs >= 0 else max(_UNKNOWN, schedulable_cpus())
    return inputs if inputs > 1 else None


def apply_read_ahead(place: StageLocation, edit: ReadAhead) -> Dataset:
    """The same elements of one input after the other, while later inputs are read already.

    Raises:
        EditRefused: It does not read several inputs one after the other, they must not be read in
            parallel, or errors are ignored.
    """
    node = place.node
    if has_ignored_errors(*place):
        raise EditRefused(
            f"errors of {node} are ignored downstream, and in parallel other elements follow "
            "a failing one",
            "errors that end the pass",
            "keep it unchanged",
        )
    inputs = count_sequential_inputs(node)
    if inputs is None or edit.readers < 2 or edit.elements_per_reader < 1:
        raise EditRefused(
            f"{node} has no inputs that can be read ahead",
            "files or other inputs, read one after the other, without random numbers and state",
            "keep it unchanged",
        )
    readers = min(edit.readers, inputs)
    made = sequential_reader_of(node)
    return read_ahead_interleave(
        node.inputs[0].dataset, node.dataset, made, readers, _LONGEST, edit.elements_per_reader
    )


def sequential_reader_of(node: Node) -> Any:
    """The dataset that opens one input after the other: the stage, or what a reader is made of."""
    made = implementation_of(node.dataset) or node.dataset
    kind = kind_of(made).name
    if kind == "flat_map" and node.kind != "from_generator":
        return made
    alone = kind == "interleave" and node.parallelism == 1
    return made if alone and int_parameter(made, "cycle_length") == 1 else None
