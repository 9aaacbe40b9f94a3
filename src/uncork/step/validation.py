"""What a ``fit`` does after an epoch with its validation data, timed without training."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
from keras.src.trainers.data_adapters import array_slicing

from uncork.step.feed import Feed, batch_samples


@dataclass(frozen=True)
class Validating:
    """The validation of a ``fit``: data that can be read at will.

    Attributes:
        feed: Its data, cut into batches as ``fit`` would.
        every: Epochs from one to the next.
    """

    feed: Feed
    every: int

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Validating | None:
        """From the arguments of a ``fit``; None without validation, or where Python makes it."""
        every = arguments.get("validation_freq") or 1
        data = arguments.get("validation_data")
        split = arguments.get("validation_split") or 0.0
        if data is None and split:
            given = tuple(arguments.get(k) for k in ("x", "y", "sample_weight"))
            _, data = array_slicing.train_validation_split(given, split)
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
        return cls(feed, every) if feed.kind in ("tf.data", "numpy") else None

    def timed(self, model: Any, limit_s: float) -> tuple[float, int] | None:
        """Seconds and samples of one validation; None where its length is not known.

        Args:
            model: Built and compiled; its metrics and its test function are used.
            limit_s: What it takes beyond is reckoned from what it took so far.
        """
        sample = next(iter(self.feed.batches_dataset(model)), None)
        size = None if sample is None else batch_samples(sample)
        with self.feed.reading(model) as epochs:
            length = epochs.num_batches
            if not length or not size:
                return None
            model.make_test_function()
            self._pass(model, epochs, 1, limit_s)  # compiles
            begin = time.perf_counter()
            done = self._pass(model, epochs, length, limit_s)
            seconds = (time.perf_counter() - begin) / done * length
        return seconds, length * size

    def _pass(self, model: Any, epochs: Any, most: int, limit_s: float) -> int:
        """Evaluate some batches from the beginning; how many."""
        begin, done = time.perf_counter(), 0
        model.reset_metrics()
        epochs.reset()
        with epochs.catch_stop_iteration():
            for first, last, iterator in itertools.islice(epochs, most):
                model.test_function(iterator)
                done += last + 1 - first
                if time.perf_counter() - begin > limit_s:
                    break
        return max(1, done)


def validation_steps(arguments: Mapping[str, Any]) -> int | None:
    """As given to ``fit``; None where it was not, or nothing is validated.

    Example:
        >>> validation_steps({"validation_data": object(), "validation_steps": 10})
        10
        >>> validation_steps({"validation_steps": 10}) is None
        True
    """
    steps = arguments.get("validation_steps")
    validated = arguments.get("validation_data") is not None or arguments.get("validation_split")
    return int(steps) if steps and validated else None
