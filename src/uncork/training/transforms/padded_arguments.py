"""Arguments of a compiled step filled up to few lengths, so that XLA compiles it for few.

What a loop does with its batch beside the step sees the batch as it is: only the step is given
longer ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from uncork.core.edits.step import PadArguments
from uncork.training.transforms.batch_shapes import BatchShapes, pad_shapes


class PaddedArgumentFunction:
    """A ``tf.function`` that is given longer arguments than its caller hands over.

    Args:
        function: Traced by TensorFlow, or in other ways.
        edit: Says which, and how long.

    Example:
        >>> from uncork.core.evidence.batches import VaryingAxis
        >>> axes = (VaryingAxis(tensor_index=0, axis=1, max_length=6),)
        >>> form = describe_call_form((tf.ones((1, 1)),), {})
        >>> longer = PadArguments(code_digest="", call_signature=form, multiple=4, axes=axes)
        >>> shape = PaddedArgumentFunction(tf.function(lambda rows: tf.shape(rows)), longer)
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
        if describe_call_form(args, kwargs) != self._edit.call_signature:
            return args, kwargs
        leaves = tf.nest.flatten((args, kwargs))
        before = read_argument_shapes(leaves)
        after = pad_shapes(before, self._edit.axes, self._edit.multiple)
        fills = {each.tensor_index: each.padding_value for each in self._edit.axes}
        for n in (n for n in fills if before[n] != after[n]):
            leaves[n] = _filled(leaves[n], after[n], fills[n])
        return (
            tf.nest.pack_sequence_as((args, kwargs), leaves) if after != before else (args, kwargs)
        )


def describe_call_form(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What a call is made of: its arguments' places, names and kinds, and flags among them.

    Of one form are calls that differ in lengths, in what tensors hold, and in numbers.

    Example:
        >>> describe_call_form((tf.zeros((2, 3)), 0.5), {"training": True})
        "(('float32 2', 'float'), {'training': 'True'})"
    """
    return repr(tf.nest.map_structure(_kind, (args, kwargs)))


def _kind(leaf: Any) -> str:
    if isinstance(leaf, np.ndarray):
        return f"array {leaf.dtype} {leaf.ndim}"
    if isinstance(leaf, tf.Tensor):
        return f"{leaf.dtype.name} {leaf.shape.rank}"
    return repr(leaf) if leaf is None or isinstance(leaf, bool | str) else type(leaf).__name__


def read_argument_shapes(leaves: Sequence[Any]) -> BatchShapes:
    """Of the parts of a call; ``()`` of what is no dense tensor or array.

    Example:
        >>> read_argument_shapes([tf.zeros((2, 3)), np.zeros(4), 0.5, None])
        ((2, 3), (4,), (), ())
    """
    return tuple(tuple(leaf.shape) if _is_dense(leaf) else () for leaf in leaves)


def _is_dense(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) or (isinstance(leaf, tf.Tensor) and bool(leaf.shape.rank))


def _filled(leaf: Any, shape: tuple[int, ...], fill: float) -> Any:
    widths = [(0, longer - length) for length, longer in zip(leaf.shape, shape, strict=True)]
    if isinstance(leaf, np.ndarray):
        return np.pad(leaf, widths, constant_values=fill)
    value = (
        "" if leaf.dtype == tf.string else tf.constant(np.asarray(fill, leaf.dtype.as_numpy_dtype))
    )
    return tf.pad(leaf, widths, constant_values=value)
