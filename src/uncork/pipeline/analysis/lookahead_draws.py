"""Random numbers that are drawn for elements nobody takes, and missing in the pass after.

What prepares elements ahead of a stage that stops it, ``take`` for one, has drawn for some that are
never asked for. Where the same iterator then goes over its source again, the numbers go on from
there: which ones meet which element depends on how far ahead it was, and that is a matter of time.
"""

from __future__ import annotations

from typing import Final

import tensorflow as tf

from uncork.pipeline.analysis.legality import is_parallel_by_default, is_random
from uncork.pipeline.functions.effects import has_variable_reads
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.python_functions import has_python_code
from uncork.pipeline.ir.tree import Pipeline

# May end, or be left, before what they read from does.
_STOPPING: Final = frozenset({"take", "take_while", "zip", "choose", "opaque"})
_PARALLEL: Final = frozenset({"map", "interleave"})


def has_lookahead_draws(pipeline: Pipeline) -> bool:
    """Whether numbers are drawn ahead of what stops them, and drawn on in the next repetition.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> def noisy(x):
        ...     return x + tf.random.uniform([], 0, 9, tf.int64)
        >>> data = tf.data.Dataset.range(9).map(noisy)
        >>> has_lookahead_draws(read_pipeline(data.take(4).repeat(2)))
        False
        >>> has_lookahead_draws(read_pipeline(data.prefetch(2).take(4).repeat(2)))
        True
    """
    return _draws(
        pipeline.root, repeated=False, stopped=False, ahead=False, options=pipeline.options
    )


def is_rewritten_by_default(pipeline: Pipeline) -> bool:
    """tf.data's own graph rewrites are on, as they are unless the options say otherwise.

    One of them ends a pipeline in a prefetch.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> is_rewritten_by_default(read_pipeline(tf.data.Dataset.range(9)))
        True
    """
    options = pipeline.options
    autotune, wanted = options.autotune.enabled, options.experimental_optimization
    switches = (autotune, wanted.apply_default_optimizations, wanted.inject_prefetch)
    return False not in switches


def has_lookahead_python_calls(pipeline: Pipeline) -> bool:
    """Whether Python is called ahead of what stops it: for more elements than are taken.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> data = tf.data.Dataset.from_generator(lambda: range(9), tf.int64)
        >>> (
        ...     has_lookahead_python_calls(read_pipeline(data.take(4))),
        ...     has_lookahead_python_calls(read_pipeline(data.prefetch(2).take(4))),
        ... )
        (False, True)
    """
    return _asks(pipeline.root, stopped=False, ahead=False, options=pipeline.options)


def _asks(node: Node, *, stopped: bool, ahead: bool, options: tf.data.Options) -> bool:
    ahead = ahead or (stopped and is_prefetching(node, options))
    if ahead and has_python_code(node):
        return True
    stopped = stopped or (node.kind in _STOPPING and not _end_together(node))
    return any(_asks(below, stopped=stopped, ahead=ahead, options=options) for below in node.inputs)


def _end_together(node: Node) -> bool:
    """What a zip joins, where it is known to have as many elements each."""
    lengths = {int(below.dataset.cardinality()) for below in node.inputs}
    return node.kind == "zip" and len(lengths) == 1 and min(lengths) >= 0


def has_on_demand_variable_reads(pipeline: Pipeline) -> bool:
    """Whether what reads a variable runs when the step asks for it and no sooner.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> times = tf.Variable(2, dtype=tf.int64)
        >>> data = tf.data.Dataset.range(9).map(lambda x: x * times)
        >>> alone = tf.data.Options()
        >>> alone.autotune.enabled = False
        >>> (
        ...     has_on_demand_variable_reads(read_pipeline(data.with_options(alone))),
        ...     has_on_demand_variable_reads(read_pipeline(data)),
        ... )
        (True, False)
    """
    return not is_rewritten_by_default(pipeline) and _waits(pipeline.root, pipeline.options)


def _waits(node: Node, options: tf.data.Options) -> bool:
    if is_prefetching(node, options):
        return False
    own = any(map(has_variable_reads, node.functions))
    return own or any(_waits(below, options) for below in node.inputs)


def _draws(
    node: Node, *, repeated: bool, stopped: bool, ahead: bool, options: tf.data.Options
) -> bool:
    """Args: What lies above it, each below the one before."""
    ahead = ahead or (stopped and is_prefetching(node, options))
    if ahead and node.kind != "shuffle" and node.inputs and is_random(node):
        return True
    stopped = stopped or (repeated and node.kind in _STOPPING)
    repeated = repeated or node.kind == "repeat"
    return any(
        _draws(below, repeated=repeated, stopped=stopped, ahead=ahead, options=options)
        for below in node.inputs
    )


def is_prefetching(node: Node, options: tf.data.Options) -> bool:
    """Elements before they are asked for; a map without state does by TensorFlow's own default.

    Args:
        node: Of a pipeline.
        options: The pipeline's.
    """
    if node.kind not in _PARALLEL:
        return node.kind == "prefetch"
    return node.parallelism != 1 or (node.kind == "map" and is_parallel_by_default(node, options))
