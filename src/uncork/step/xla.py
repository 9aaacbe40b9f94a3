"""Whether Keras would compile a model with XLA at all."""

from __future__ import annotations

from typing import Any, Final

from tensorflow.python.framework.config import is_op_determinism_enabled

_NAMED: Final = 3


def why_not_compiled(model: Any) -> str | None:
    """What makes Keras go on without XLA, with no more than a warning; None where nothing does.

    One layer is enough: all of the model then runs as before.

    Example:
        >>> import keras
        >>> layers = keras.layers
        >>> turned = [keras.Input((8, 8, 3)), layers.RandomRotation(0.1, name="turn")]
        >>> why_not_compiled(keras.Sequential(turned))
        "XLA compiles no RandomRotation ('turn'), and Keras then compiles nothing of the model"
        >>> why_not_compiled(keras.Sequential([keras.Input((8,)), layers.Dense(1)])) is None
        True
    """
    if is_op_determinism_enabled():
        return "op determinism is on, and Keras leaves XLA off then"
    vetoes = [layer for layer in model._flatten_layers() if not layer.supports_jit]
    # A model that holds such a layer says the same of itself.
    alone = [layer for layer in vetoes if not getattr(layer, "layers", None)] or vetoes
    if not alone:
        return None
    named = [f"{type(layer).__name__} ('{layer.name}')" for layer in alone[:_NAMED]]
    more = f" and {len(alone) - _NAMED} more" if len(alone) > _NAMED else ""
    return f"XLA compiles no {', '.join(named)}{more}, and Keras then compiles nothing of the model"
