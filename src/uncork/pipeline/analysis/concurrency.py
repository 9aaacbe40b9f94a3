"""How many elements a stage works on at once, or could; and how many it prepares ahead."""

from __future__ import annotations

from uncork.compat.tfdata.dataset_fields import int_parameter
from uncork.core.evidence.stage import AUTOTUNE
from uncork.measure.machine.probe import schedulable_cpus
from uncork.pipeline.functions.effects import has_variable_reads, is_order_free
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.parallel_calls import has_open_parallel_calls


def max_interleave_readers(node: Node) -> int | None:
    """Inputs that a serial interleave has open at once, where each could have a thread of its own.

    None where there is but one, where they are read in parallel already, or where what they do
    depends on the order in which they do it.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> two = tf.data.Dataset.range(4).interleave(tf.data.Dataset.range, cycle_length=2)
        >>> (
        ...     max_interleave_readers(read_pipeline(two).root),
        ...     max_interleave_readers(read_pipeline(two.batch(2)).root),
        ... )
        (2, None)
    """
    if node.kind != "interleave" or node.parallelism != 1:
        return None
    if not is_order_free(node.functions[0]) or has_variable_reads(node.functions[0]):
        return None
    cycle = int_parameter(node.dataset, "cycle_length")
    # A serial interleave takes "as many as you like" for the processors it may run on, a parallel
    # one for another number.
    cycle = schedulable_cpus() if cycle == AUTOTUNE else cycle
    inputs = int(node.inputs[0].dataset.cardinality())
    cycle = min(cycle, inputs) if inputs >= 0 else cycle
    return None if cycle <= 1 else cycle


def configured_prefetched_elements(node: Node) -> int | None:
    """Elements that a stage was told to prepare before they are asked for; None for no number.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> configured_prefetched_elements(
        ...     read_pipeline(tf.data.Dataset.range(4).prefetch(400)).root
        ... )
        400
    """
    if node.kind == "prefetch":
        told = int_parameter(node.dataset, "buffer_size")
    else:
        own = node.kind == "map" and not has_open_parallel_calls(node)
        told = (node.parallelism or 1) if own else 1
    return told if told > 1 else None
