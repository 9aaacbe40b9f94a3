"""Masks of tensors, the scope in which Keras casts variables, the global seed generator.

Borrowed: ``get_keras_mask``, ``set_keras_mask``, ``AutocastScope``, ``get_autocast_scope``, the
    global attribute ``global_seed_generator``, and the ``tf.Variable`` inside a ``keras.Variable``.
Why: nothing public reads or sets a mask, ends the casting of variables for a while, or reads the
    seed generator; ``keras.Variable.value`` is a tensor inside a traced function.
Works with: Keras 3.7.0 and 3.15.1; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported or by the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from uncork.compat.borrow import borrow, borrow_attribute

_SCOPES: Final = "keras.src.backend.common.variables"

# The mask that a layer has put on its output; None where there is none.
get_keras_mask: Final[Callable[[Any], Any]] = borrow("keras.src.backend", "get_keras_mask")
set_keras_mask: Final[Callable[[Any, Any], None]] = borrow("keras.src.backend", "set_keras_mask")
# Inside ``AutocastScope(dtype)`` variables are read in this dtype; of None, in their own.
AutocastScope: Final[Any] = borrow(_SCOPES, "AutocastScope")
get_autocast_scope: Final[Callable[[], Any]] = borrow(_SCOPES, "get_autocast_scope")

_get_global_attribute: Final[Callable[[str], Any]] = borrow(
    "keras.src.backend.common.global_state", "get_global_attribute"
)


def global_seed_generator() -> Any | None:
    """What layers without a seed of their own draw their seeds from; None before the first draw.

    Example:
        >>> import keras
        >>> _ = keras.random.uniform(())
        >>> global_seed_generator().state.numpy().shape
        (2,)
    """
    return _get_global_attribute("global_seed_generator")


def tf_variable(variable: Any) -> Any:
    """The ``tf.Variable`` of a variable of Keras, also where reading it would give a tensor.

    Example:
        >>> import keras
        >>> type(tf_variable(keras.Variable([1.0]))).__name__
        'ResourceVariable'
    """
    return borrow_attribute(variable, "_value")
