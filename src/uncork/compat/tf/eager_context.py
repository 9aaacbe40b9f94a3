"""The eager runtime: waiting for ops, the global seed, cached kernels, registered functions.

Borrowed: ``tensorflow.python.eager.context``: functions of the module, and the context object.
Why: nothing public waits for ops in progress, reads the global seed, or adds a function definition.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from uncork.compat.borrow import borrow

_MODULE: Final = "tensorflow.python.eager.context"

# Returns when all ops that Python has started are computed.
async_wait: Final[Callable[[], None]] = borrow(_MODULE, "async_wait")
# The seed that ``tf.random.set_seed`` was called with; None without such a call.
global_seed: Final[Callable[[], int | None]] = borrow(_MODULE, "global_seed")
# Setting it resets all seeded kernels.
set_global_seed: Final[Callable[[int | None], None]] = borrow(_MODULE, "set_global_seed")

_context: Final[Callable[[], Any]] = borrow(_MODULE, "context")
_is_async: Final[Callable[[Any], bool]] = borrow(_MODULE, "Context.is_async")
_clear_kernel_cache: Final[Callable[[Any], None]] = borrow(_MODULE, "Context.clear_kernel_cache")
_has_function: Final[Callable[[Any, str], bool]] = borrow(_MODULE, "Context.has_function")
_add_function_def: Final[Callable[[Any, Any], None]] = borrow(_MODULE, "Context.add_function_def")


def is_async() -> bool:
    """Whether ops that this thread starts are computed while Python continues.

    Example:
        >>> is_async()
        False
    """
    return bool(_is_async(_context()))


def clear_kernel_cache() -> None:
    """Let TensorFlow create its kernels again; this resets kernels that count random numbers."""
    _clear_kernel_cache(_context())


def register_function(definition: Any) -> None:
    """Make a ``FunctionDef`` known to the runtime, where its name is not known yet."""
    context = _context()
    if not _has_function(context, definition.signature.name):
        _add_function_def(context, definition)


def op_seed_state() -> Any:
    """State of the counter from which eager ops without a seed get theirs; None before its use."""
    counter = getattr(_context(), "_rng", None)
    return None if counter is None else counter.getstate()


def set_op_seed_state(state: Any) -> None:
    """Restore what :func:`op_seed_state` returned."""
    counter = getattr(_context(), "_rng", None)
    if counter is not None and state is not None:
        counter.setstate(state)
