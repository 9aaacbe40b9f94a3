"""AutoGraph's own conversion of a function, as ``tf.map_fn`` calls it.

Borrowed: ``tf_convert``, the status of the caller's conversion, the marks of what is not converted.
Why: ``tf.autograph.to_graph`` converts a function always, not where its caller is converted; and
    ``tf.autograph.experimental.do_not_convert`` returns another function, not the marked one.
Works with: TensorFlow 2.18.1 and 2.21.0; the test of this file was run on both.
Where a name is missing: ``MissingPrivateApi``, raised when this module is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from uncork.compat.borrow import borrow

_MODULE: Final = "tensorflow.python.autograph.impl.api"

_MARK: Final = "autograph_info__"

_tf_convert: Final[Callable[..., Any]] = borrow(_MODULE, "tf_convert")
_control_status_ctx: Final[Callable[[], Any]] = borrow(
    "tensorflow.python.autograph.core.ag_ctx", "control_status_ctx"
)

# Marks a function that converted code calls unchanged, as it calls TensorFlow's own.
mark_as_artifact: Final[Callable[[Any], Any]] = borrow(_MODULE, "autograph_artifact")


def convert_like_caller(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose branches and loops are converted where those of the caller are.

    Example:
        >>> convert_like_caller(abs)(-3)
        3
    """
    converted: Callable[..., Any] = _tf_convert(function, _control_status_ctx())
    return converted


def without_autograph_mark(function: Callable[..., Any]) -> Callable[..., Any]:
    """The user's function inside the wrapper by which TensorFlow keeps AutoGraph out of it.

    Example:
        >>> import tensorflow as tf
        >>> without_autograph_mark(tf.autograph.experimental.do_not_convert(abs))
        <built-in function abs>
    """
    if not hasattr(function, _MARK):
        return function
    around = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    users: Callable[..., Any] = around["func"].cell_contents if "func" in around else function
    return users
