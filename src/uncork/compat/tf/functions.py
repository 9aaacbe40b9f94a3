"""Objects that ``tf.function`` creates, and the graphs that they trace.

Borrowed: ``Function``, its clone, options and calls; ``FuncGraph``; ``tf_decorator``; trace times.
Why: nothing public replaces what a function object does when it is called, copies one with other
    options, lists its traces without a new one, or tells the graph of a function from another.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``; where only tracing time is not counted, 0 seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from uncork.compat.borrow import borrow, borrow_attribute
from uncork.core.base.errors import MissingPrivateApi

_MODULE: Final = "tensorflow.python.eager.polymorphic_function.polymorphic_function"
_COUNTER: Final = "_graph_building_time_counter"
_NUMBER: Final = re.compile(r"\d+")

# The class of what ``tf.function`` returns.
Function: Final[Any] = borrow(_MODULE, "Function")
# The graph of a traced function, in contrast to ``tf.Graph``.
FuncGraph: Final[Any] = borrow("tensorflow.python.framework.func_graph", "FuncGraph")
# Wraps a Python function so that AutoGraph converts the function inside, not the wrapper.
make_decorator: Final[Callable[[Any, Any], Any]] = borrow(
    "tensorflow.python.util.tf_decorator", "make_decorator"
)

_clone: Final[Callable[[Any, Any], Any]] = borrow(_MODULE, "Function._clone")
borrow(_MODULE, "Function._call")  # an object's own takes its place, see intercept_calls


def is_xla_compiled(function: Any) -> bool:
    """Whether a ``tf.function`` was created with ``jit_compile=True``."""
    return bool(borrow_attribute(function, "_jit_compile"))


def clone(function: Any, python: Callable[..., Any] | None = None, **options: Any) -> Any:
    """An untraced copy of a ``tf.function``.

    Args:
        function: Keeps its traces.
        python: The Python function of the copy; None for the same one.
        options: Of ``tf.function``, in place of the original's: ``jit_compile``, for example.

    Example:
        >>> import tensorflow as tf
        >>> double = tf.function(lambda x: 2 * x)
        >>> int(clone(double, lambda x: 3 * x, jit_compile=False)(tf.constant(4)))
        12
    """
    copy = _clone(function, python)
    vars(copy).update({f"_{name}": value for name, value in options.items()})
    return copy


def intercept_calls(function: Any, instead: Callable[..., Any]) -> Callable[..., Any]:
    """Let another callable answer the calls of one ``tf.function``, wherever it is referenced.

    Returns:
        What answered them before.
    """
    original: Callable[..., Any] = function._call
    function._call = instead
    return original


def restore_calls(function: Any) -> None:
    """Let a ``tf.function`` answer its calls itself again."""
    vars(function).pop("_call", None)


def has_traces(function: Any) -> bool:
    """Whether an object keeps traces, as a ``tf.function`` does, and not what wraps one."""
    return hasattr(function, "_function_cache")


def traces(function: Any) -> list[Any]:
    """Concrete functions that were traced so far; none for what keeps no traces.

    Example:
        >>> import tensorflow as tf
        >>> double = tf.function(lambda x: 2 * x)
        >>> _ = double(tf.constant(4))
        >>> len(traces(double)), traces(len)
        (1, [])
    """
    cache = getattr(function, "_function_cache", None)
    return [] if cache is None else list(cache.values())


def tracing_order(graph: Any) -> int:
    """A number that grows from one traced graph to the next; 0 where it is not known."""
    number = _NUMBER.search(getattr(graph, "_graph_key", ""))
    return int(number[0]) if number else 0


def _tracing_counter() -> Any:
    with suppress(MissingPrivateApi):
        module = "tensorflow.python.eager.polymorphic_function.tracing_compilation"
        return borrow(module, _COUNTER)
    return None


# TensorFlow's metric "/tensorflow/core/tf_function/graph_building_time_usecs": functions traced
# while another is traced are not counted twice.
_TRACING: Final = _tracing_counter()


def total_tracing_s() -> float:
    """Seconds spent in tracing since the process started; 0 where TensorFlow does not count them.

    Example:
        >>> import tensorflow as tf
        >>> before = total_tracing_s()
        >>> _ = tf.function(lambda x: x + 1)(1)
        >>> total_tracing_s() > before
        True
    """
    return 0.0 if _TRACING is None else _TRACING.get_cell().value() / 1e6
