"""What graphs consist of: definitions of ops, bodies of functions, composite tensors.

Borrowed: ``op_def_registry``, ``function_def_to_graph``, ``CompositeTensor``, ``_get_function``.
Why: nothing public returns an op's definition by its name, or turns a ``FunctionDef`` into a graph
    without registering it; ``tf.is_tensor`` does not tell ragged and sparse tensors from others.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from uncork.compat.borrow import borrow

# The registered definition of an op; None for the name of a function.
registered_op_def: Final[Callable[[str], Any]] = borrow(
    "tensorflow.python.framework.op_def_registry", "get"
)
# A function's body as a ``GraphDef``, and the tensor in it for each name that the function uses.
function_def_to_graph_def: Final[Callable[[Any], tuple[Any, dict[str, str]]]] = borrow(
    "tensorflow.python.framework.function_def_to_graph", "function_def_to_graph_def"
)
# The class of ragged and sparse tensors, of variables and of all others that consist of tensors.
CompositeTensor: Final[Any] = borrow(
    "tensorflow.python.framework.composite_tensor", "CompositeTensor"
)

# The function of this name that a graph calls, an object with a ``graph``; None where it has none.
function_in: Final[Callable[[Any, str], Any]] = borrow(
    "tensorflow.python.framework.ops", "Graph._get_function"
)
