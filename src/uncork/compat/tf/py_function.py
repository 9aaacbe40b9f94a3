"""The registry of Python functions that graphs call by a token.

Borrowed: ``script_ops._py_funcs``, the wrapper ``EagerFunc``, what graphs keep alive.
Why: ``tf.py_function`` and ``tf.numpy_function`` are public; a graph has only the token of the
    function that they register.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Final

from uncork.compat.borrow import borrow

_MODULE: Final = "tensorflow.python.ops.script_ops"
_registry: Final[Any] = borrow(_MODULE, "_py_funcs")
_functions: Final[Any] = borrow(_MODULE, "_py_funcs._funcs")
_get: Final[Callable[[Any, str], Any]] = borrow(_MODULE, "FuncRegistry.get")
_insert: Final[Callable[[Any, Any], str]] = borrow(_MODULE, "FuncRegistry.insert")
_EagerFunc: Final[Any] = borrow(_MODULE, "EagerFunc")

# What a graph keeps alive for its tokens: the registry itself keeps nothing alive.
_ALIVE: Final = "_py_funcs_used_in_graph"


def registered(token: str) -> Any:
    """What is registered under a token; None where it is gone."""
    return _get(_registry, token)


def register(entry: Any) -> str:
    """Register an entry, which the caller must keep alive.

    Returns:
        Its token.
    """
    return _insert(_registry, entry)


def replace_registered(token: str, entry: Any) -> None:
    """Register another entry under a token; the caller must keep it alive."""
    _functions[token] = entry


def function_of(entry: Any) -> Callable[..., Any]:
    """What a registered entry calls: one that takes tensors wraps its function."""
    function: Callable[..., Any] = entry._func if isinstance(entry, _EagerFunc) else entry
    return function


def entry_like(entry: Any, function: Callable[..., Any]) -> Any:
    """A function in the form in which another one is registered."""
    if not isinstance(entry, _EagerFunc):
        return function
    other = copy.copy(entry)
    other._func = function
    return other


def keep_alive(graph: Any, entries: Sequence[Any]) -> None:
    """Let a graph keep registered entries alive as long as it lives."""
    setattr(graph, _ALIVE, [*getattr(graph, _ALIVE, ()), *entries])
