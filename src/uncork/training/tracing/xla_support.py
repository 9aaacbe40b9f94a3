"""What XLA cannot compile: layers that declare it, and ops whose compilation fails."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from uncork.compat.keras3.layers import flatten_layers
from uncork.compat.tf.devices import is_op_determinism_enabled
from uncork.pycode.frames.stack import format_location, is_user_file

_NAMED: Final = 3
# In TensorFlow's words: an op without a kernel, and the calls that made the first of them.
_MISSING: Final = re.compile(r"No registered '(\w+)' OpKernel for XLA_")
# An argument of a type that XLA has no numbers for.
_TEXT: Final = re.compile(
    r"'_Arg' OpKernel.*?T=DT_STRING.*?_user_specified_name=\"(\w+)\"", re.DOTALL
)
_CREATED: Final = "The op is created at:"
_CALL: Final = re.compile(r'^\s*File "(.+)", line (\d+), in ', re.MULTILINE)


def xla_refusal(model: Any, excluded_layers: Collection[Any] = ()) -> str | None:
    """Why Keras would silently run a model without XLA; None where it would not.

    One layer is enough: all of the model then runs as before.

    Args:
        model: Of Keras's.
        excluded_layers: Layers that do not count, and all inside them.

    Example:
        >>> import keras
        >>> layers = keras.layers
        >>> turned = [keras.Input((8, 8, 3)), layers.RandomRotation(0.1, name="turn")]
        >>> xla_refusal(keras.Sequential(turned))
        "XLA cannot compile RandomRotation ('turn'), and Keras then compiles no part of the model"
        >>> xla_refusal(keras.Sequential([keras.Input((8,)), layers.Dense(1)])) is None
        True
    """
    if is_op_determinism_enabled():
        return "op determinism is enabled, and Keras then disables XLA"
    vetoes = [layer for layer in flatten_layers(model) if not layer.supports_jit]
    # A model that holds such a layer says the same of itself.
    alone = [layer for layer in vetoes if not getattr(layer, "layers", None)] or vetoes
    elsewhere = {id(inner) for layer in excluded_layers for inner in flatten_layers(layer)}
    alone = [layer for layer in alone if id(layer) not in elsewhere]
    if not alone:
        return None
    named = [f"{type(layer).__name__} ('{layer.name}')" for layer in alone[:_NAMED]]
    more = f" and {len(alone) - _NAMED} more" if len(alone) > _NAMED else ""
    return (
        f"XLA cannot compile {', '.join(named)}{more}, and Keras then compiles no part of the model"
    )


def missing_kernel_reason(error: Exception) -> str | None:
    """Which op has no XLA kernel according to an error; None if the error names no op.

    Example:
        >>> import tensorflow as tf
        >>> as_text = tf.function(lambda x: tf.strings.as_string(x), jit_compile=True)
        >>> try:
        ...     as_text(tf.constant(1.0))
        ... except tf.errors.InvalidArgumentError as error:
        ...     print(missing_kernel_reason(error)[:30])
        XLA has no kernel for AsString
    """
    missing = list(dict.fromkeys(_MISSING.findall(str(error))))
    if not missing:
        return None
    calls = _CALL.findall(str(error).partition(_CREATED)[2])
    users = [
        format_location(_rooted(path), int(line)) for path, line in calls if is_user_file(path)
    ]
    text = _TEXT.search(str(error))
    what = f"has no kernel for {', '.join(missing[:_NAMED])}"
    if text is not None:
        what = f"does not support strings, and the argument {text[1]!r} is a string"
    return f"XLA {what}" + (f" ({users[-1]})" if users else "")


def _rooted(path: str) -> str:
    """TensorFlow tells a path without the slash that it begins with."""
    return path if Path(path).exists() or not Path(f"/{path}").exists() else f"/{path}"
