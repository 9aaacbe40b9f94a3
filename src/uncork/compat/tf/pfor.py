"""The table of ops that ``tf.vectorized_map`` can apply to stacked elements.

Borrowed: ``parallel_for.pfor``: its registry of converters, and what converters create and raise.
Why: ``tf.vectorized_map`` is public; how it converts an op, and which ones, is not.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from uncork.compat.borrow import borrow

_MODULE: Final = "tensorflow.python.ops.parallel_for.pfor"

# By the name of an op; what is put here is in effect at once.
converters: Final[dict[str, Callable[..., Any]]] = borrow(_MODULE, "_pfor_converter_registry")
# A tensor, and whether it is stacked: what a converter returns for each output.
wrap_tensor: Final[Callable[[Any, bool], Any]] = borrow(_MODULE, "wrap")
# Raised by a converter: its op is left to a loop.
ConversionNotImplementedError: Final[Any] = borrow(_MODULE, "ConversionNotImplementedError")

_create_op: Final[Callable[..., Any]] = borrow(_MODULE, "_create_op")


def create_like(op: Any, inputs: Sequence[Any]) -> list[Any]:
    """Outputs of another op of the same type and attributes.

    Args:
        op: As a converter gets it.
        inputs: Of the new op, in place of the original's.
    """
    types = [output.dtype for output in op.outputs]
    return list(_create_op(op.op_type, inputs, types, op.op.node_def.attr).outputs)
