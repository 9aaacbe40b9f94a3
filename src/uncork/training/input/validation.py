"""The validation that a ``fit`` makes after an epoch, from its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras

from uncork.compat.keras3.data_adapters import train_validation_split
from uncork.training.input.feed import Feed


@dataclass(frozen=True)
class ValidationSetup:
    """The validation of a ``fit``: data that can be read at will.

    Attributes:
        feed: Its data, cut into batches as ``fit`` would.
        epoch_interval: Epochs from one to the next.
        validation_count: How many of them there are, one at least.
    """

    feed: Feed
    epoch_interval: int
    validation_count: int

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> ValidationSetup | None:
        """From the arguments of a ``fit``; None without validation, or where Python makes it.

        Keras validates where the number of an epoch, from 1 on, is a multiple of
        ``epoch_interval``.
        """
        every = arguments.get("validation_freq") or 1
        data = arguments.get("validation_data")
        split = arguments.get("validation_split") or 0.0
        if data is None and split:
            given = tuple(arguments.get(k) for k in ("x", "y", "sample_weight"))
            _, data = train_validation_split(given, split)
        if data is None or not isinstance(every, int):
            return None
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
        feed = Feed(
            x=x,
            y=y,
            sample_weight=weight,
            batch_size=arguments.get("validation_batch_size") or arguments.get("batch_size"),
            steps_per_epoch=arguments.get("validation_steps"),
            shuffle=False,
        )
        first, end = int(arguments.get("initial_epoch") or 0), int(arguments.get("epochs") or 1)
        times = end // every - first // every
        return cls(feed, every, times) if times and feed.kind in ("tf.data", "numpy") else None


def configured_validation_steps(arguments: Mapping[str, Any]) -> int | None:
    """As given to ``fit``; None where it was not, or nothing is validated.

    Example:
        >>> configured_validation_steps({"validation_data": object(), "validation_steps": 10})
        10
        >>> configured_validation_steps({"validation_steps": 10}) is None
        True
    """
    steps = arguments.get("validation_steps")
    validated = arguments.get("validation_data") is not None or arguments.get("validation_split")
    return int(steps) if steps and validated else None
