"""Blocks of real training steps, run the way ``Model.fit`` runs them."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras

from uncork.compat.tf.eager_context import async_wait
from uncork.core.base.errors import NothingToMeasure
from uncork.measure.benchmark.interleave import Block
from uncork.measure.benchmark.quiesce import wait_until_idle
from uncork.measure.benchmark.timed_block import time_block
from uncork.training.input.feed import Feed, iterate_executions
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.snapshot import Snapshot


@dataclass
class FitRunner:
    """One variant of a ``fit`` training: these settings, this feed.

    The loop is Keras's own: its epoch iterator, its train function, its callback list with the
    history alone, which turns the logs into Python floats after each execution. The user's
    callbacks and validation are left out: a trial must not write a checkpoint.

    Where epochs are shorter than a block, it times whole ones: their starts and ends are part of
    the training, and a window that holds one end more or less would measure that. Where ``fit`` is
    told how many steps an epoch has, and the data has more, it reads on from epoch to epoch: then
    nothing starts or ends between them.

    Validation steps are run likewise, as ``fit`` runs them after an epoch.

    Attributes:
        settings: How the step runs.
        feed: What feeds it.
        snapshot: Every block starts from these weights, so that none drifts into NaN alone.
        samples_per_step: Samples of a full batch.
        is_validation: The steps are those of a validation.
        may_wait_between_epochs: Between epochs TensorFlow may wait for tf.data's tuning thread.
    """

    settings: StepSettings
    feed: Feed
    snapshot: Snapshot
    samples_per_step: float
    is_validation: bool = False
    may_wait_between_epochs: bool = False
    _epoch_steps: int | None = field(default=None, init=False)
    _reads_on: bool = field(default=False, init=False)
    _epoch_s: float = field(default=math.inf, init=False)
    # Epochs that have ended, and seconds between them.
    _ended: tuple[int, float] = field(default=(0, 0.0), init=False)

    def prime(self) -> float:
        """Compile, for every batch of a resident feed; seconds it took."""
        return self._run(seconds=0.0, warm_steps=self.feed.resident_batch_count).warmup_s

    def block(self, seconds: float) -> Block:
        """Time steps for about ``seconds`` from a fresh iterator."""
        return self._run(seconds, whole=self._epoch_s <= seconds and not self._reads_on)

    def execution_times(self, *, is_primed: bool = True) -> Generator[float, None, None]:
        """Seconds of one execution after the other, each waited for; close it to end them.

        Args:
            is_primed: Compile before.
        """
        if is_primed:
            self.prime()
        with self._executing() as executions:
            last = time.perf_counter()
            for _ in executions:
                async_wait()
                now = time.perf_counter()
                yield now - last
                last = time.perf_counter()

    def first_epoch(self, limit_s: float) -> float | None:
        """Seconds of one epoch from here, compilation included; None past the limit."""
        begin = time.perf_counter()
        with self._executing(once=True) as executions:
            for _ in executions:
                if time.perf_counter() - begin > limit_s:
                    return None
        return time.perf_counter() - begin

    def _run(self, seconds: float, *, whole: bool = False, warm_steps: int = 0) -> Block:
        wait_until_idle()
        with self._executing(whole=whole) as executions:
            samples = self.samples_per_step
            found = time_block(
                *(executions, seconds, samples),
                skip_warmup=whole,
                min_warmup_steps=warm_steps,
                read_epoch_ends=(lambda: self._ended) if self.may_wait_between_epochs else None,
            )
        if self._epoch_steps:
            self._epoch_s = self._epoch_steps * found.wall_s / found.steps
        return found

    @contextmanager
    def _executing(self, *, once: bool = False, whole: bool = False) -> Iterator[Iterator[int]]:
        self.snapshot.restore_values()
        with self.settings.active(), self._fed.open_epoch_iterator(self.settings.model) as epochs:
            callbacks = keras.callbacks.CallbackList(None, add_history=True)
            callbacks.on_train_begin()
            self._epoch_steps = epochs.num_batches
            self._reads_on = not self.is_validation and _reads_on(epochs)
            try:
                yield self._executions(epochs, callbacks, once=once, whole=whole)
            finally:
                callbacks.on_train_end()

    @functools.cached_property
    def _fed(self) -> Feed:
        fed = self.settings.validation_feed if self.is_validation else self.settings.training_feed
        return fed(self.feed)

    def _executions(self, epochs: Any, callbacks: Any, *, once: bool, whole: bool) -> Iterator[int]:
        """Run epoch after epoch, or one; yields the steps of each execution or whole epoch."""
        model = self.settings.model
        model.stop_training = False
        if self.is_validation:
            model.make_test_function()
        before = 0
        while True:
            ran, iterator, last = 0, None, time.perf_counter()
            model.reset_metrics()
            with epochs.catch_stop_iteration():
                for begin, end, iterator in iterate_executions(epochs):
                    if self.is_validation:
                        callbacks.on_test_batch_end(end, model.test_function(iterator))
                    else:
                        callbacks.on_train_batch_end(end, model.train_function(iterator))
                    # Data ends an execution early; a number of steps that was given does not.
                    length = None if self.feed.steps_per_epoch else epochs.num_batches
                    steps = (min(end + 1, length) if length else end + 1) - begin
                    ran += steps
                    if not whole:
                        yield steps
                    last = time.perf_counter()
            if ran == before == 0:  # data that ended with an epoch leaves none to the next one
                data = "validation" if self.is_validation else "training"
                raise NothingToMeasure(
                    f"the {data} data has no batches", "at least one batch", "check the dataset"
                )
            if once:
                return
            if self.is_validation:
                epochs.reset()  # as each validation begins
            before, iterator = ran, None  # what ending it costs is part of the epoch
            self._ended = (self._ended[0] + 1, self._ended[1] + time.perf_counter() - last)
            if whole:
                yield ran


def _reads_on(epochs: Any) -> bool:
    """Epochs are as long as ``fit`` was told, and end before the data does."""
    steps, length = epochs.steps_per_epoch, epochs.data_adapter.num_batches
    return bool(steps) and (length is None or length > steps)
