"""Does a Keras model run Python code of the user's in each step?"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

import keras
import tensorflow as tf

from uncork.core.stack import is_users
from uncork.watch import is_users_class


def own_python(model: Any) -> str:
    """Which code of the user's that is, as part of a sentence; ``""`` where there is none.

    Example:
        >>> model = keras.Sequential([keras.layers.Lambda(abs), keras.layers.Dense(1)])
        >>> model.compile(loss="mse")
        >>> own_python(model)
        ''
        >>> model.compile(loss=lambda y, y_pred: y - y_pred)
        >>> own_python(model)
        'the loss runs Python code of your own'
    """
    parts = [*_parts(model)]
    found = next((name for name, part in parts if _is_own(part)), None)
    return "" if found is None else f"{found} runs Python code of your own"


def _parts(model: Any) -> Iterator[tuple[str, Any]]:
    yield "the optimizer", model.optimizer
    given = (
        ("the loss", getattr(model, "_compile_loss", None), "_user_loss"),
        ("a metric", getattr(model, "_compile_metrics", None), "_user_metrics"),
        ("a metric", getattr(model, "_compile_metrics", None), "_user_weighted_metrics"),
    )
    for name, holder, attribute in given:
        for part in tf.nest.flatten(getattr(holder, attribute, None)):
            yield name, part
    for layer in model._flatten_layers():  # last: the model itself holds its loss, too
        yield layer.name, layer


def _is_own(part: Any) -> bool:
    if isinstance(part, (FunctionType, MethodType)):
        return is_users(part.__code__.co_filename)
    if any(map(is_users_class, type(part).__mro__)):
        return True
    if not isinstance(part, (keras.layers.Layer, keras.losses.Loss, keras.metrics.Metric)):
        return False
    held = [v for v in vars(part).values() if isinstance(v, (FunctionType, MethodType))]
    return any(is_users(value.__code__.co_filename) for value in held)
