"""Build a model's weights before its first step, as ``fit`` would."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import keras
import tensorflow as tf

from uncork.compat.keras3.layers import flatten_layers
from uncork.compat.keras3.model_state import build_symbolically
from uncork.core.base.errors import WrongUse
from uncork.training.state.snapshot import find_optimizers


def watch_late_built_layers(model: Any) -> Callable[[], bool]:
    """Ask before a model is built; what is given says afterwards whether layers made others then.

    Keras's own hand their dtype policy on to these, those of the script's own need not.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(2)])
        >>> made = watch_late_built_layers(model)
        >>> model.build((None, 3))
        >>> made()
        False
    """
    unbuilt = (layer for layer in flatten_layers(model) if not layer.built)
    own = [each for each in unbuilt if not str(type(each).build.__module__).startswith("keras.")]
    before = [len(flatten_layers(layer)) for layer in own]
    return lambda: before != [len(flatten_layers(layer)) for layer in own]


def build_model(model: Any, batch: Any) -> None:
    """Build a model that waits for its first batch; nothing happens to one that is built.

    Raises:
        WrongUse: It was never compiled, or cannot take this batch.
    """
    if not getattr(model, "compiled", False):
        raise WrongUse(
            f"the script does not compile the model {model.name!r}",
            "an optimizer and a loss",
            'call model.compile(optimizer="adam", loss=...) before fit',
        )
    if not model.built or any(not layer.built for layer in flatten_layers(model)):
        x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        try:
            model(x, training=False)
        except Exception as error:
            if _trains_without_call(model, batch):
                return
            raise WrongUse(
                f"the model {model.name!r} fails on a batch of its data: {error}",
                "a batch that model(x) accepts",
                "compare the dataset's element_spec with the model's input",
            ) from error
    _build_metrics(model, batch)
    if any(not o.built for o in find_optimizers(model) if o is not model.optimizer):
        _trace(model, batch)


def _trains_without_call(model: Any, batch: Any) -> bool:
    """Its own step calls the layers one by one, as those of autoencoders do, and builds them."""
    if type(model).train_step is keras.Model.train_step:
        return False
    _trace(model, batch)
    return all(layer.built for layer in flatten_layers(model, include_self=False))


def _build_metrics(model: Any, batch: Any) -> None:
    """Metrics and losses make their variables on first use; a snapshot must know them all."""
    try:
        build_symbolically(model, batch)
    except Exception:  # a custom train_step needs none of this, and then it may not apply
        return


def _trace(model: Any, batch: Any) -> None:
    """Optimizers of a step's own make their slots while it is traced, which trains nothing."""
    with suppress(Exception):  # a step that cannot be traced runs eagerly
        tf.function(model.train_step, autograph=False).get_concrete_function(batch)
