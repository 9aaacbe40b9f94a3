"""Evaluates a training on held-out samples of its own data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from uncork.training.input.feed import Feed, iterate_executions
from uncork.training.run.step_settings import StepSettings
from uncork.training.state.loss_value import find_logged_loss
from uncork.training.state.snapshot import Snapshot

# Of the samples, laid aside.
_SHARE: Final = 0.2
# Fewer tell nothing of a loss.
_LEAST: Final = 64
# More take time, and tell little more.
_MOST: Final = 2048
# Of one batch they are judged by: it does not change the mean.
_JUDGED: Final = 256


@dataclass(frozen=True)
class HeldOutSplit:
    """Samples to train on and samples to judge by, as the training step receives them.

    Attributes:
        training_samples: Batches put together: tensors of one length, in the structure of a batch.
        held_out_samples: Likewise.
    """

    training_samples: Any
    held_out_samples: Any

    @classmethod
    def from_feed(
        cls, feed: Feed, model: Any, *, max_samples: int, max_bytes: int
    ) -> HeldOutSplit | None:
        """From the first batches of a feed; None where they cannot be put together, or are few.

        Args:
            feed: Of a ``fit``.
            model: That it trains.
            max_samples: Samples: all of them different ones, as those laid aside are not to be
                seen.
            max_bytes: Of all samples together.
        """
        batches: list[Any] = []
        samples = taken = 0
        for batch in feed.batches_dataset(model):
            leaves = tf.nest.flatten(batch)
            if not leaves or not all(_is_dense(leaf) for leaf in leaves):
                return None
            if samples and samples + int(leaves[0].shape[0]) > max_samples:
                break
            batches.append(batch)
            samples += int(leaves[0].shape[0])
            taken += sum(leaf.dtype.size * leaf.shape.num_elements() for leaf in leaves)
            if samples >= max_samples or taken >= max_bytes:
                break
        if samples < _LEAST or not _alike(batches):
            return None
        together = tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *batches)
        cut = samples - min(_MOST, int(samples * _SHARE))
        return cls(_part(together, slice(0, cut)), _part(together, slice(cut, samples)))

    @property
    def training_sample_count(self) -> int:
        """Samples to train on."""
        return int(tf.nest.flatten(self.training_samples)[0].shape[0])

    def feed(self, *, seed: int, batch_size: int, steps: int) -> Feed:
        """So many steps, passes in orders of their own."""
        rows = tf.data.Dataset.from_tensor_slices(self.training_samples)
        order = rows.shuffle(
            self.training_sample_count, seed=seed, reshuffle_each_iteration=True
        ).repeat()
        batches = order.take(steps * batch_size).batch(batch_size, drop_remainder=True)
        return Feed(x=batches.prefetch(2), shuffle=False, is_recorded=True)

    def held_out_loss(self, model: Any) -> float:
        """The loss on the held-out samples, as a validation computes it.

        Raises:
            ValueError: The model tells none.
        """
        rows = tf.data.Dataset.from_tensor_slices(self.held_out_samples).batch(_JUDGED)
        model.make_test_function()
        model.reset_metrics()
        logs: Any = {}
        with (
            Feed(x=rows, shuffle=False).open_epoch_iterator(model) as epochs,
            epochs.catch_stop_iteration(),
        ):
            for _, _, iterator in iterate_executions(epochs):
                logs = model.test_function(iterator)
        name, loss = find_logged_loss(logs)
        if not name:
            raise ValueError("the model does not return a single loss from its validation")
        return loss

    def loss_curve(
        self,
        settings: StepSettings,
        snapshot: Snapshot,
        *,
        seed: int,
        batch_size: int,
        steps: int,
        points: int,
    ) -> tuple[tuple[int, float], ...]:
        """Train from a snapshot; the held-out loss at the start and at each point.

        With each the samples trained on by then. Where steps run in groups there may be fewer
        points: it is told between two groups.

        Args:
            settings: How the step runs.
            snapshot: Where to start.
            seed: Of the order of the samples.
            batch_size: Samples of a step.
            steps: Of the training.
            points: Parts of it after which the loss is told.
        """
        snapshot.restore_values()
        model = settings.model
        feed = self.feed(seed=seed, batch_size=batch_size, steps=steps)
        with settings.active(), settings.training_feed(feed).open_epoch_iterator(model) as epochs:
            told = [(0, self.held_out_loss(model))]
            with epochs.catch_stop_iteration():
                for _, end, iterator in iterate_executions(epochs):
                    model.train_function(iterator)
                    done = min(end + 1, steps)
                    if done * points >= len(told) * steps:
                        told.append((done * batch_size, self.held_out_loss(model)))
        return tuple(told)


def _is_dense(leaf: Any) -> bool:
    dense = isinstance(leaf, tf.Tensor) and leaf.shape.rank and leaf.dtype != tf.variant
    return bool(dense)


def _alike(batches: list[Any]) -> bool:
    """But for how many samples are in each."""
    shapes = {str(tf.nest.map_structure(lambda leaf: leaf.shape[1:], batch)) for batch in batches}
    return len(shapes) == 1


def _part(together: Any, rows: slice) -> Any:
    return tf.nest.map_structure(lambda leaf: leaf[rows], together)
