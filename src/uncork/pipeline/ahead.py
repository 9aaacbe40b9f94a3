"""Random numbers that are drawn for elements nobody takes, and missing in the pass after.

What prepares elements ahead of a stage that stops it, ``take`` for one, has drawn for some that are
never asked for. Where the same iterator then goes over its source again, the numbers go on from
there: which ones meet which element depends on how far ahead it was, and that is a matter of time.
"""

from __future__ import annotations

from typing import Final

from uncork.pipeline.effects import is_stateless
from uncork.pipeline.legality import is_random
from uncork.pipeline.tree import Node, Pipeline

# May end, or be left, before what they read from does.
_STOPPING: Final = frozenset({"take", "take_while", "zip", "choose", "opaque"})
_PARALLEL: Final = frozenset({"map", "interleave"})


def draws_too_far(pipeline: Pipeline) -> bool:
    """Whether numbers are drawn ahead of what stops them, and drawn on in the next repetition.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.tree import read
        >>> def noisy(x):
        ...     return x + tf.random.uniform([], 0, 9, tf.int64)
        >>> data = tf.data.Dataset.range(9).map(noisy)
        >>> draws_too_far(read(data.take(4).repeat(2)))
        False
        >>> draws_too_far(read(data.prefetch(2).take(4).repeat(2)))
        True
    """
    return _draws(pipeline.root, repeated=False, stopped=False, ahead=False)


def rewritten_by_default(pipeline: Pipeline) -> bool:
    """tf.data's own graph rewrites are on, as they are unless the options say otherwise.

    One of them ends a pipeline in a prefetch.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.pipeline.tree import read
        >>> rewritten_by_default(read(tf.data.Dataset.range(9)))
        True
    """
    options = pipeline.options
    autotune = getattr(options.autotune, "enabled", None)
    rewrites = options.experimental_optimization.apply_default_optimizations
    return autotune is not False and rewrites is not False


def _draws(node: Node, *, repeated: bool, stopped: bool, ahead: bool) -> bool:
    """Args: What lies above it, each below the one before."""
    ahead = ahead or (stopped and prepares(node))
    if ahead and node.kind != "shuffle" and node.inputs and is_random(node):
        return True
    stopped = stopped or (repeated and node.kind in _STOPPING)
    repeated = repeated or node.kind == "repeat"
    below = (_draws(n, repeated=repeated, stopped=stopped, ahead=ahead) for n in node.inputs)
    return any(below)


def prepares(node: Node) -> bool:
    """Elements before they are asked for; a map without state does by TensorFlow's own default."""
    if node.kind not in _PARALLEL:
        return node.kind == "prefetch"
    by_default = node.kind == "map" and all(map(is_stateless, node.functions))
    return node.parallelism != 1 or by_default
