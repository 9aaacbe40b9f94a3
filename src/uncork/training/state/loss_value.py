"""Which of the numbers that a training step tells is its loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import keras

# As Keras tells it, and as models with several parts of one call their sum.
_NAMES: Final = ("loss", "total_loss")
# Ends of names of what is told beside a loss, and is no part of it.
_NO_LOSSES: Final = (
    "accuracy", "acc", "auc", "precision", "recall", "learning_rate", "lr", "norm",
)  # fmt: skip


def find_logged_loss(logs: Mapping[str, Any]) -> tuple[str, float]:
    """The name and the value of a step's loss.

    A ``train_step`` of the user's own tells what it likes. Where it tells several losses and none
    of the whole, as those of two networks that work against each other, the name is ``""`` and the
    value their mean: it repeats itself where the step does, but says nothing of how good it is.

    Args:
        logs: What the step has told; numbers by name, or such mappings.

    Example:
        >>> (
        ...     find_logged_loss({"mae": 0.5, "loss": 2.0}),
        ...     find_logged_loss({"vae_loss": 3.0, "accuracy": 1.0}),
        ... )
        (('loss', 2.0), ('vae_loss', 3.0))
        >>> (
        ...     find_logged_loss({"d_loss": 1.0, "g_loss": 2.0}),
        ...     find_logged_loss({"l2_loss": 1.0, "kl": 2.0}),
        ... )
        (('', 1.5), ('', 1.5))
    """
    logs = _flat(logs)
    names: list[str] = [name for name in _NAMES if name in logs]
    losses = [name for name in logs if not is_not_loss(name)]
    if not names and len(losses) == 1 and "loss" in losses[0]:
        names = losses
    if names:
        return names[0], _number(logs[names[0]])
    values = [_number(value) for value in logs.values()]
    return "", sum(values) / max(1, len(values))


def is_not_loss(name: str) -> bool:
    """What is called so is told beside a loss.

    Example:
        >>> is_not_loss("val_accuracy"), is_not_loss("total")
        (True, False)
    """
    return name.endswith(_NO_LOSSES)


def _flat(logs: Mapping[str, Any]) -> dict[str, Any]:
    """As Keras takes mappings in mappings apart."""
    found: dict[str, Any] = {}
    for name, value in logs.items():
        found.update(_flat(value) if isinstance(value, Mapping) else {name: value})
    return found


def _number(told: Any) -> float:
    return float(keras.ops.mean(keras.ops.cast(told, "float32")))
