"""Keras's own ``fit``, timed from inside, on whatever backend it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import keras
import psutil

from uncork.measure.benchmark.interleave import Block
from uncork.training.input.feed import Feed
from uncork.training.input.generator_stream import share_generator, with_generator_reader

# Steps and seconds before the first block: compiling, and what starts up beside it.
_WARM_STEPS: Final = 20
_WARM_S: Final = 1.0
# The training is stopped long before.
_EPOCHS: Final = 1_000_000


@dataclass(frozen=True)
class FitTiming:
    """What was seen of it.

    Attributes:
        blocks: In their order.
        first_epoch_s: Compiling included; None where it did not end in time.
    """

    blocks: list[Block]
    first_epoch_s: float | None


def time_fit(
    fit: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    samples_per_step: float,
    block_count: int,
    block_s: float,
) -> FitTiming:
    """Train without the user's callbacks and validation, and time some blocks of it.

    Args:
        fit: Of the model.
        arguments: Of the user's call.
        samples_per_step: Of a full batch.
        block_count: How many.
        block_s: Seconds of one.
    """
    # A generator that ends is begun again, as each epoch would need it to be.
    arguments = with_generator_reader(share_generator(arguments))
    feed, clock = Feed.from_arguments(arguments), _Clock(samples_per_step, block_count, block_s)
    given = {
        **arguments,
        "x": feed.x,
        "y": feed.y,
        "sample_weight": feed.sample_weight,
        "validation_data": None,
        "validation_split": 0.0,
        "callbacks": [clock],
        "verbose": 0,
        "initial_epoch": 0,
        "epochs": _EPOCHS,
    }
    fit(**given)
    return FitTiming(clock.blocks, clock.first_epoch_s)


class _Clock(keras.callbacks.Callback):  # type: ignore[misc]
    """Counts steps, and waits for the last of a block only: what runs ahead goes on to do so."""

    def __init__(self, samples: float, blocks: int, block_s: float) -> None:
        super().__init__()
        self.blocks: list[Block] = []
        self.first_epoch_s: float | None = None
        self._samples, self._wanted, self._block_s = samples, blocks, block_s
        self._warm, self._steps, self._last = False, 0, -1
        self._begin_s, self._begin_cpu_s = time.perf_counter(), _cpu_s()
        self._made_s = self._begin_s

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._last = -1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch == 0 and not self.model.stop_training:
            self.first_epoch_s = time.perf_counter() - self._made_s

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._steps, self._last = self._steps + batch - self._last, batch
        passed_s = time.perf_counter() - self._begin_s
        if not self._warm:
            if self._steps >= _WARM_STEPS and passed_s >= _WARM_S:
                self._warm = True
                self._anew(logs)
        elif passed_s >= self._block_s:
            _wait_for(logs)
            wall_s, cpu_s = time.perf_counter() - self._begin_s, _cpu_s() - self._begin_cpu_s
            samples = self._steps * self._samples
            block = Block(self._steps, samples, wall_s=wall_s, cpu_s=cpu_s, warmup_s=0.0)
            self.blocks.append(block)
            self.model.stop_training = len(self.blocks) >= self._wanted
            self._anew(logs)

    def _anew(self, logs: Any) -> None:
        _wait_for(logs)
        self._steps = 0
        self._begin_s, self._begin_cpu_s = time.perf_counter(), _cpu_s()


def _wait_for(logs: Any) -> None:
    """Until the step that these come from is done."""
    for value in (logs or {}).values():
        keras.ops.convert_to_numpy(value)


def _cpu_s() -> float:
    spent = psutil.Process().cpu_times()
    return float(spent.user + spent.system)
