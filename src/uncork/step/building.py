"""Give a model its weights before its first step, the way ``fit`` would."""

from __future__ import annotations

from typing import Any

import keras

from uncork.core.errors import WrongUse


def build(model: Any, batch: Any) -> None:
    """Build a model that waits for its first batch; nothing happens to one that is built.

    Raises:
        WrongUse: It was never compiled, or cannot take this batch.
    """
    if not getattr(model, "compiled", False):
        raise WrongUse(
            f"the model {model.name!r} was never compiled",
            "an optimizer and a loss",
            'call model.compile(optimizer="adam", loss=...) before',
        )
    if not model.built or any(not layer.built for layer in model._flatten_layers()):
        x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        try:
            model(x, training=False)
        except Exception as error:
            raise WrongUse(
                f"the model {model.name!r} cannot take a batch of its data: {error}",
                "a batch that model(x) accepts",
                "check the dataset's element_spec against the model's input",
            ) from error
    _build_metrics(model, batch)


def _build_metrics(model: Any, batch: Any) -> None:
    """Metrics and losses make their variables on first use; a snapshot must know them all."""
    try:
        model._symbolic_build(data_batch=batch)
    except Exception:  # a custom train_step needs none of this, and then it may not apply
        return
