"""Arguments of a compiled step filled up to few lengths, so that XLA compiles it for few.

What a loop does with its batch beside the step sees the batch as it is: only the step is given
longer ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from uncork.core.batch_facts import OpenAxis
from uncork.core.step_edit import PadArguments
from uncork.step.new_shapes import Shapes, filled_up


class WithLengths:
    """A ``tf.function`` that is given longer arguments than its caller hands over.

    Args:
        function: Traced by TensorFlow, or in other ways.
        edit: Says which, and how long.

    Example:
        >>> from uncork.core.batch_facts import OpenAxis
        >>> axes = (OpenAxis(tensor=0, axis=1, longest=6),)
        >>> longer = PadArguments(code="", multiple=4, axes=axes)
        >>> shape = WithLengths(tf.function(lambda rows: tf.shape(rows)), longer)
        >>> [shape(tf.zeros((2, length))).numpy().tolist() for length in (3, 5, 9)]
        [[2, 4], [2, 6], [2, 9]]
    """

    def __init__(self, function: Any, edit: PadArguments) -> None:
        self._function = function
        self._edit = edit

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        args, kwargs = self._longer(args, kwargs)
        return self._function(*args, **kwargs)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> Any:
        """The trace that serves such a call."""
        args, kwargs = self._longer(args, kwargs)
        return self._function.get_concrete_function(*args, **kwargs)

    def experimental_get_tracing_count(self) -> int:
        """How often it was traced."""
        return int(self._function.experimental_get_tracing_count())

    def _longer(self, args: Any, kwargs: Any) -> Any:
        leaves = tf.nest.flatten((args, kwargs))
        before = argument_shapes(leaves)
        after = longer_shapes(before, self._edit)
        for each in self._edit.axes:
            if before != after and before[each.tensor] != after[each.tensor]:
                leaves[each.tensor] = _filled(leaves[each.tensor], after[each.tensor], each.fill)
        return tf.nest.pack_sequence_as((args, kwargs), leaves)


def argument_shapes(leaves: Sequence[Any]) -> Shapes:
    """Of the parts of a call; ``()`` of what is no dense tensor or array.

    Example:
        >>> argument_shapes([tf.zeros((2, 3)), np.zeros(4), 0.5, None])
        ((2, 3), (4,), (), ())
    """
    return tuple(tuple(leaf.shape) if _is_dense(leaf) else () for leaf in leaves)


def longer_shapes(shapes: Shapes, edit: PadArguments) -> Shapes:
    """What becomes of them; what has no such axis stays as it is.

    Example:
        >>> axes = (OpenAxis(tensor=0, axis=1, longest=20), OpenAxis(tensor=5, axis=1, longest=20))
        >>> longer_shapes(((32, 13), ()), PadArguments(code="", multiple=8, axes=axes))
        ((32, 16), ())
    """
    axes = tuple(each for each in edit.axes if _is_there(shapes, each))
    return filled_up(shapes, axes, edit.multiple)


def _is_dense(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) or (isinstance(leaf, tf.Tensor) and bool(leaf.shape.rank))


def _is_there(shapes: Shapes, axis: OpenAxis) -> bool:
    return axis.tensor < len(shapes) and axis.axis < len(shapes[axis.tensor])


def _filled(leaf: Any, shape: tuple[int, ...], fill: float) -> Any:
    widths = [(0, longer - length) for length, longer in zip(leaf.shape, shape, strict=True)]
    if isinstance(leaf, np.ndarray):
        return np.pad(leaf, widths, constant_values=fill)
    value = (
        "" if leaf.dtype == tf.string else tf.constant(np.asarray(fill, leaf.dtype.as_numpy_dtype))
    )
    return tf.pad(leaf, widths, constant_values=value)
