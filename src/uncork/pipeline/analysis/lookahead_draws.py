"""Random numbers that are drawn for elements nobody takes, and missing in the pass after.

What prepares elements ahead of a stage that stops it, ``take`` for one, has drawn for some that are
never asked for. Where the same iterator then goes over its source again, the numbers go on from
there: which ones meet which element depends on how far ahead it was, and that is a matter of time.
"""

from __future__ import annotations

from typing import Final

import tensorflow as tf

from uncork.pipeline.analysis.legality import is_random, parallel_by_default
from uncork.pipeline.functions.effects import reads_variables
from uncork.pipeline.ir.node import Node
from uncork.pipeline.ir.python_functions import in_python
from uncork.pipeline.ir.tree import Pipeline

# May end, or be left, before what they read from does.
_STOPPING: Final = frozenset({"take", "take_while", "zip", "choose", "opaque"})
_PARALLEL: Final = frozenset({"map", "interleave"})


def draws_too_far(pipeline: Pipeline) -> bool:
    """Whether numbers are drawn ahead of what stops them, and drawn on in the next repetition.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read
        >>> def noisy(x):
        ...     return x + tf.random.uniform([], 0, 9, tf.int64)
        >>> data = tf.data.Dataset.range(9).map(noisy)
        >>> draws_too_far(read(data.take(4).repeat(2)))
        False
        >>> draws_too_far(read(data.prefetch(2).take(4).repeat(2)))
        True
    """
    return _draws(
        pipeline.root, repeated=False, stopped=False, ahead=False, options=pipeline.options
    )


def rewritten_by_default(pipeline: Pipeline) -> bool:
    """tf.data's own graph rewrites are on, as they are unless the options say otherwise.

    One of them ends a pipeline in a prefetch.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read
        >>> rewritten_by_default(read(tf.data.Dataset.range(9)))
        True
    """
    options = pipeline.options
    autotune, wanted = options.autotune.enabled, options.experimental_optimization
    switches = (autotune, wanted.apply_default_optimizations, wanted.inject_prefetch)
    return False not in switches


def asks_too_far(pipeline: Pipeline) -> bool:
    """Whether Python is called ahead of what stops it: for more elements than are taken.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read
        >>> data = tf.data.Dataset.from_generator(lambda: range(9), tf.int64)
        >>> asks_too_far(read(data.take(4))), asks_too_far(read(data.prefetch(2).take(4)))
        (False, True)
    """
    return _asks(pipeline.root, stopped=False, ahead=False, options=pipeline.options)


def _asks(node: Node, *, stopped: bool, ahead: bool, options: tf.data.Options) -> bool:
    ahead = ahead or (stopped and prepares(node, options))
    if ahead and in_python(node):
        return True
    stopped = stopped or (node.kind in _STOPPING and not _end_together(node))
    return any(_asks(below, stopped=stopped, ahead=ahead, options=options) for below in node.inputs)


def _end_together(node: Node) -> bool:
    """What a zip joins, where it is known to have as many elements each."""
    lengths = {int(below.dataset.cardinality()) for below in node.inputs}
    return node.kind == "zip" and len(lengths) == 1 and min(lengths) >= 0


def in_its_turn(pipeline: Pipeline) -> bool:
    """Whether what reads a variable runs when the step asks for it and no sooner.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.ir.tree import read
        >>> times = tf.Variable(2, dtype=tf.int64)
        >>> data = tf.data.Dataset.range(9).map(lambda x: x * times)
        >>> alone = tf.data.Options()
        >>> alone.autotune.enabled = False
        >>> in_its_turn(read(data.with_options(alone))), in_its_turn(read(data))
        (True, False)
    """
    return not rewritten_by_default(pipeline) and _waits(pipeline.root, pipeline.options)


def _waits(node: Node, options: tf.data.Options) -> bool:
    if prepares(node, options):
        return False
    own = any(map(reads_variables, node.functions))
    return own or any(_waits(below, options) for below in node.inputs)


def _draws(
    node: Node, *, repeated: bool, stopped: bool, ahead: bool, options: tf.data.Options
) -> bool:
    """Args: What lies above it, each below the one before."""
    ahead = ahead or (stopped and prepares(node, options))
    if ahead and node.kind != "shuffle" and node.inputs and is_random(node):
        return True
    stopped = stopped or (repeated and node.kind in _STOPPING)
    repeated = repeated or node.kind == "repeat"
    return any(
        _draws(below, repeated=repeated, stopped=stopped, ahead=ahead, options=options)
        for below in node.inputs
    )


def prepares(node: Node, options: tf.data.Options) -> bool:
    """Elements before they are asked for; a map without state does by TensorFlow's own default.

    Args:
        node: Of a pipeline.
        options: The pipeline's.
    """
    if node.kind not in _PARALLEL:
        return node.kind == "prefetch"
    return node.parallelism != 1 or (node.kind == "map" and parallel_by_default(node, options))
