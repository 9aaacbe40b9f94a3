"""The transforms of a step that its edits request. Trials and plans apply the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from uncork.core.edits.step import FlatUpdates, StepEdit, VectorizedMapFn
from uncork.training.input.feed import Feed
from uncork.training.memory.micro_batches import MicroBatchedStep, create_micro_batched_step
from uncork.training.memory.recompute import RecomputedStep, create_recomputed_step
from uncork.training.optimizer.flat_updates import FlatGroup
from uncork.training.optimizer.fused_updates import fuse_updates
from uncork.training.optimizer.learning_rate import rescale_learning_rate
from uncork.training.optimizer.row_updates import apply_row_updates
from uncork.training.precision.loss_scaling import LossScaler, needs_loss_scaling
from uncork.training.tracing.map_fn import MapVectorizer
from uncork.training.transforms.device_maps import MapInStep, create_map_in_step
from uncork.training.transforms.input_layers import LayersInPipeline, create_layers_in_pipeline
from uncork.training.transforms.pad_lengths import PaddedFeed, create_padded_feed


@dataclass(frozen=True)
class StepTransforms:
    """What the edits of a step change beyond Keras's own settings, created for one model.

    An attribute is None where no edit requests it.

    Attributes:
        model: That is trained.
        edits: All edits of its step.
        layers_in_pipeline: Runs the first layers in the input pipeline.
        map_in_step: Runs the last map of the input pipeline in the step.
        padded_feed: Pads batches to fewer lengths.
        micro_batches: Splits the batch into parts.
        recompute: Computes activations again instead of storing them.
        map_vectorizer: Vectorizes ``tf.map_fn`` while the step is traced.
        flat_group: Updates small weights as one.
        loss_scaler: Scales the loss for float16.

    Example:
        >>> import keras
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        >>> model.compile("adam", "mse")
        >>> transforms = StepTransforms.create(model, (FlatUpdates(),), on_refusal=print)
        >>> transforms.flat_group is None, transforms.micro_batches is None
        (False, True)
    """

    model: Any
    edits: tuple[StepEdit, ...]
    layers_in_pipeline: LayersInPipeline | None
    map_in_step: MapInStep | None
    padded_feed: PaddedFeed | None
    micro_batches: MicroBatchedStep | None
    recompute: RecomputedStep | None
    map_vectorizer: MapVectorizer | None
    flat_group: FlatGroup | None
    loss_scaler: LossScaler | None

    @classmethod
    def create(
        cls,
        model: Any,
        edits: tuple[StepEdit, ...],
        on_refusal: Callable[[str], None],
        *,
        has_constant_arrays: bool = False,
    ) -> StepTransforms:
        """Create what the edits request.

        Args:
            model: Built and compiled.
            edits: Checked by :func:`~uncork.training.run.edit_checks.check_edits`.
            on_refusal: Called with the reason where a ``tf.map_fn`` cannot be vectorized.
            has_constant_arrays: Nobody writes into arrays that the step reads.

        Raises:
            EditRefused: The model does not meet the precondition of an edit.
        """
        has_flat_updates = any(isinstance(edit, FlatUpdates) for edit in edits)
        has_vectorized_maps = any(isinstance(edit, VectorizedMapFn) for edit in edits)
        return cls(
            model=model,
            edits=edits,
            layers_in_pipeline=create_layers_in_pipeline(model, edits),
            map_in_step=create_map_in_step(model, edits, has_constant_arrays=has_constant_arrays),
            padded_feed=create_padded_feed(model, edits),
            micro_batches=create_micro_batched_step(model, edits),
            recompute=create_recomputed_step(model, edits),
            map_vectorizer=MapVectorizer(on_refusal) if has_vectorized_maps else None,
            flat_group=FlatGroup(model) if has_flat_updates else None,
            loss_scaler=LossScaler(model) if needs_loss_scaling(edits) else None,
        )

    def training_feed(self, feed: Feed) -> Feed:
        """The feed of a training with these transforms, for the user's feed.

        Raises:
            EditRefused: A transform cannot be applied to this data.
        """
        for each in (self.layers_in_pipeline, self.map_in_step, self.padded_feed):
            feed = each.training_feed(feed) if each else feed
        return feed

    def validation_feed(self, feed: Feed) -> Feed:
        """The validation feed with these transforms; the same feed where none changes it."""
        return self.padded_feed.validation_feed(feed) if self.padded_feed else feed

    def batch_pairs(self, feed: Feed) -> Any | None:
        """Pairs of batches: for the step with these transforms, and for the user's own step.

        Returns:
            None where both are the same.

        Raises:
            EditRefused: As :meth:`training_feed`.
        """
        changed = self.map_in_step or self.padded_feed
        return changed.batch_pairs(feed) if changed else None

    @contextmanager
    def patch_model(self) -> Iterator[None]:
        """Trace the step with these transforms inside the block."""
        with ExitStack() as stack:
            if self.map_vectorizer is not None:
                stack.enter_context(self.map_vectorizer.patch_model(self.model))
            # In this order: the batch is split behind the map that the step runs.
            for each in (
                *(self.layers_in_pipeline, self.map_in_step),
                *(self.micro_batches, self.recompute),
            ):
                if each is not None:
                    stack.enter_context(each.patch_model())
            yield

    @contextmanager
    def patch_optimizer(self, *, start_step: int | None = None) -> Iterator[None]:
        """Update the weights as the edits request, in what is traced inside the block.

        Args:
            start_step: The optimizer's count before the first of these steps
                (:func:`~uncork.training.optimizer.learning_rate.rescale_learning_rate`).
        """
        optimizer = self.model.optimizer
        with ExitStack() as stack:
            stack.enter_context(rescale_learning_rate(optimizer, self.edits, start_step=start_step))
            stack.enter_context(fuse_updates(optimizer, self.edits))
            stack.enter_context(apply_row_updates(self.model, self.edits))
            if self.flat_group is not None:
                stack.enter_context(self.flat_group.active())
            if self.loss_scaler is not None:
                stack.enter_context(self.loss_scaler.active())
            yield

    def load_device_data(self) -> None:
        """Put data on the device that the step reads there."""
        if self.map_in_step is not None:
            self.map_in_step.load_device_data()

    def release_memory(self) -> None:
        """Release memory that only this step needs; :meth:`load_device_data` takes it again."""
        if self.map_in_step is not None:
            self.map_in_step.release_memory()
