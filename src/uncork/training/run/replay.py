"""Train a few steps from one snapshot on recorded batches: what two versions are compared by."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from uncork.training.input.feed import Feed, iterate_executions
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.arrays import ReplayResult
from uncork.training.state.loss_value import find_logged_loss
from uncork.training.state.snapshot import Snapshot, find_learned_positions, read_weights

# Relative: a compiled division and another one need not agree to the last bit.
_CLOSE = 1e-5


@dataclass(frozen=True)
class BatchRecording:
    """Some batches as the training step received them, held in memory.

    Attributes:
        batches: As the user's own step is given them.
        variant_batches: The same as a version's step is given them, where that is something else.
    """

    batches: tuple[Any, ...]
    variant_batches: tuple[Any, ...] = ()

    @classmethod
    def from_feed(
        cls, feed: Feed, model: Any, *, max_batches: int, max_bytes: int
    ) -> BatchRecording:
        """Record up to ``max_batches`` batches, fewer when they take more than ``max_bytes``."""
        return cls(tuple(_first(feed.batches_dataset(model), max_batches, max_bytes)))

    @classmethod
    def from_pairs(cls, pairs: Any, *, max_batches: int, max_bytes: int) -> BatchRecording:
        """Record what a version's step is given beside what the user's own is.

        Args:
            pairs: From :meth:`StepSettings.in_two`.
            max_batches: Of them.
            max_bytes: That they may take.
        """
        found = _first(pairs, max_batches, max_bytes)
        return cls(tuple(made for _, made in found), tuple(given for given, _ in found))

    def first_batches(self, max_batches: int) -> BatchRecording:
        """The first of its batches."""
        return BatchRecording(self.batches[:max_batches], self.variant_batches[:max_batches])

    def with_first_rows(self, rows: int) -> BatchRecording:
        """The same, of each batch the first rows only."""
        return BatchRecording(tuple(take_first_rows(batch, rows) for batch in self.batches))

    def feed(self, order: Sequence[int], *, for_variant: bool = False) -> Feed:
        """These batches in this order, once, without copying them.

        Args:
            order: Numbers of batches.
            for_variant: As the version's step is given them, where that is something else.
        """
        batches = self.variant_batches if for_variant and self.variant_batches else self.batches
        sources = [tf.data.Dataset.from_tensors(b).repeat() for b in batches]
        picks = tf.data.Dataset.from_tensor_slices(np.asarray(order, np.int64))
        dataset = tf.data.Dataset.choose_from_datasets(sources, picks, stop_on_empty_dataset=False)
        return Feed(x=dataset, steps_per_epoch=len(order), shuffle=False, is_recorded=True)


def take_first_rows(batch: Any, rows: int) -> Any:
    """Of each part of a batch that has rows.

    Example:
        >>> take_first_rows((tf.constant([1, 2, 3]), tf.constant(4.0)), 2)[0].numpy()
        array([1, 2], dtype=int32)
    """

    def cut(part: Any) -> Any:
        return part[:rows] if getattr(getattr(part, "shape", None), "rank", 0) else part

    return tf.nest.map_structure(cut, batch)


def _first(dataset: Any, most: int, max_bytes: int) -> list[Any]:
    found: list[Any] = []
    taken = 0
    for element in dataset:
        found.append(element)
        taken += _size(element)
        if len(found) >= most or taken >= max_bytes:
            break
    return found


def run_replay(
    settings: StepSettings,
    snapshot: Snapshot,
    feed: Feed,
    *,
    windows: int = 1,
    loss_interval: int = 1,
    disturb: Callable[[Any], None] | None = None,
) -> ReplayResult:
    """Train over the feed once from the snapshot's weights.

    Args:
        settings: How the step runs.
        snapshot: Where to start.
        feed: From :meth:`Recording.feed`; its length must be a multiple of ``windows``.
        windows: Losses are averaged over this many equal parts.
        loss_interval: Steps after which a loss counts: where another version tells it no more
            often.
        disturb: Called with the model before the first step, to nudge its weights.
    """
    model = settings.model
    snapshot.restore_values()
    if disturb is not None:
        disturb(model)
    with settings.active(), settings.training_feed(feed).open_epoch_iterator(model) as epochs:
        model.reset_metrics()
        told: list[tuple[int, float]] = []
        name = ""
        with epochs.catch_stop_iteration():
            for _, end, iterator in iterate_executions(epochs):
                logs = model.train_function(iterator)
                steps = min(end + 1, feed.steps_per_epoch or end + 1)
                name, loss = find_logged_loss(logs)
                told.append((steps, loss))
        told = [each for each in told if each[0] % loss_interval == 0] or told[-1:]
        means = _window_means if _is_running_mean(model, told[-1][1]) else _means_of_parts
        losses = means(told, windows)
    # Only now the state is where Keras has it, and as the user would find it.
    return ReplayResult(
        losses,
        read_weights(model),
        is_loss_comparable=bool(name),
        constant_positions=snapshot.non_finite_positions,
        learned_positions=find_learned_positions(model),
    )


def _is_running_mean(model: Any, loss: float) -> bool:
    """A metric tells this loss; otherwise a ``train_step`` of its own tells that of its batch."""
    for metric in model.metrics:
        with suppress(Exception):  # one that was never updated, or tells several numbers
            if math.isclose(float(metric.result()), loss, rel_tol=_CLOSE):
                return True
    return False


def _means_of_parts(losses: list[tuple[int, float]], windows: int) -> tuple[float, ...]:
    """Means over equal windows from single losses, each with the steps so far."""
    total = losses[-1][0]
    parts: list[list[float]] = [[] for _ in range(windows)]
    for steps, loss in losses:
        parts[min(windows - 1, (steps - 1) * windows // total)].append(loss)
    return tuple(math.fsum(part) / len(part) for part in parts if part)


def _window_means(cumulative: list[tuple[int, float]], windows: int) -> tuple[float, ...]:
    """Means over equal windows from Keras's running mean since the start of the epoch."""
    total = cumulative[-1][0]
    means, steps_before, sum_before = [], 0, 0.0
    for window in range(1, windows + 1):
        edge = total * window // windows
        steps, mean = next((s, m) for s, m in cumulative if s >= edge)
        if steps > steps_before:
            means.append((steps * mean - sum_before) / (steps - steps_before))
        steps_before, sum_before = steps, steps * mean
    return tuple(means)


def _size(batch: Any) -> int:
    leaves = tf.nest.flatten(batch, expand_composites=True)
    return sum(int(np.prod(t.shape)) * (t.dtype.size or 64) for t in leaves if hasattr(t, "shape"))
