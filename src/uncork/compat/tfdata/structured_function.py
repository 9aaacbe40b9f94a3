"""Traced functions in the form in which tf.data's classes keep theirs.

Borrowed: the fields that datasets read of a ``StructuredFunctionWrapper``; its Python function.
Why: only the constructor creates one, and it would trace the user's function again.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported; without the
    Python function, stages are described without its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uncork.compat.borrow import borrow

borrow("tensorflow.python.data.ops.structured_function", "StructuredFunctionWrapper.function")
borrow(
    "tensorflow.python.data.ops.structured_function", "StructuredFunctionWrapper.output_structure"
)


@dataclass(frozen=True, eq=False)
class MapFunction:
    """Stands in for TensorFlow's wrapper of a traced function.

    Attributes:
        function: The concrete function, over flat tensors.
        output_structure: Type specs that its flat outputs pack into.
        origin: What it was made from; keeps registered Python functions and variables alive.
        variables: That the function may read or change; its graph knows handles only.
        second_origin: Another one that it was made from.
        python_function: The user's, for its name.
    """

    function: Any
    output_structure: Any
    origin: Any = None
    variables: tuple[Any, ...] = ()
    second_origin: Any = None
    python_function: Callable[..., Any] | None = None


def derive_map_function(origin: Any, function: Any, output_structure: Any = None) -> MapFunction:
    """A function made from the one that a dataset holds, in its place."""
    return MapFunction(
        function,
        origin.output_structure if output_structure is None else output_structure,
        origin=origin,
        variables=variables_of(origin),
        python_function=python_function_of(origin),
    )


def variables_of(wrapper: Any) -> tuple[Any, ...]:
    """Variables that a dataset's function captured."""
    if isinstance(wrapper, MapFunction):
        return wrapper.variables
    return tuple(wrapper.function.graph.variables)


def python_function_of(wrapper: Any) -> Callable[..., Any] | None:
    """The user's Python function behind a dataset's function; None where it is not known.

    Example:
        >>> import tensorflow as tf
        >>> from uncork.compat.tfdata.dataset_fields import parameter
        >>> python_function_of(parameter(tf.data.Dataset.range(3).map(abs), "map_func"))
        <built-in function abs>
    """
    name = "python_function" if isinstance(wrapper, MapFunction) else "_func"
    python: Callable[..., Any] | None = getattr(wrapper, name, None)
    return python
