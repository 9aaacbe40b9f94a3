"""Moves the last maps of the input pipeline into the training step, onto its device.

What is sent to the device is what the map takes, not what it makes: bytes instead of floats. The
pipeline marks its batches; in the graph of the training step each is made, on the step's device,
into what ``train_step`` was always given.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

import tensorflow as tf

from uncork.compat.keras3.model_state import strategy_of
from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import LayersInInput, MapOnDevice, StepEdit, find_map_on_device
from uncork.core.evidence.stage import StepOffload
from uncork.measure.machine.device_memory import free_device_bytes
from uncork.pipeline.ir.tree import Pipeline, read_pipeline
from uncork.pipeline.transforms.late_gather import gather_keras_arrays
from uncork.pipeline.transforms.trailing_maps import (
    TrailingMaps,
    find_expected_maps,
    find_trailing_maps,
)
from uncork.training.input.feed import Feed
from uncork.training.tracing.model_attribute import override_attribute
from uncork.training.tracing.step_info import step_device

# Bytes that any device has room for.
_TRIFLE: Final = 1 << 26


class UnmappedBatch(NamedTuple):
    """A batch that the last map of its pipeline is still to be done to.

    Attributes:
        batch: What the map takes.
    """

    batch: Any


class MapInStep:
    """What an edit does to a model's training and to its data.

    Args:
        model: The user's.
        edit: Names the maps.
        has_constant_arrays: All data is the same arrays, as long as it is arrays: they are put on
            the device once.

    Raises:
        EditRefused: The step of this model is not Keras's to change.
    """

    def __init__(self, model: Any, edit: MapOnDevice, *, has_constant_arrays: bool = False) -> None:
        if model.run_eagerly or strategy_of(model) is not None:
            raise EditRefused(
                "the model runs eagerly, or under a tf.distribute strategy",
                "a compiled step on one device",
                "keep the map in the input pipeline",
            )
        self._model, self._expects, self._keeps = model, edit.expected_digest, has_constant_arrays
        self._map: TrailingMaps | None = None
        self._traced: TrailingMaps | None = None

    @property
    def has_changed(self) -> bool:
        """What the data was taken from last is another map, by its function, than what is traced.

        They do the same, but a function holds numbers of its own.
        """
        traced, now = self._traced, self._map
        if traced is None or now is None:
            return False
        pairs = zip(traced.functions, now.functions, strict=True)
        return any(before is not after for before, after in pairs)

    def training_feed(self, feed: Feed) -> Feed:
        """The same data, with the last maps left to the step.

        Batches that were recorded are as the step is to be given them.

        Raises:
            EditRefused: It does not end with these maps, or its batches are weighted by class.
        """
        if feed.is_recorded:
            return feed
        if feed.kind == "numpy":
            return feed.with_array_rewrite(lambda pipeline: _marked(self._of_arrays(pipeline)))
        return feed.with_dataset(_marked(self._of_pipeline(feed)))

    def batch_pairs(self, feed: Feed) -> Any:
        """A dataset of pairs: each batch as the step takes it, and as the maps make it here.

        Raises:
            EditRefused: As :meth:`training_feed`.
        """
        if feed.kind == "numpy":
            taken = self._of_arrays(read_pipeline(feed.batches_dataset(self._model)))
        else:
            taken = self._of_pipeline(feed)
        return taken.input_dataset.map(
            lambda *given: (UnmappedBatch(given), taken.map_element(given))
        )

    def _of_pipeline(self, feed: Feed) -> TrailingMaps:
        if feed.dataset is None or feed.class_weight is not None:
            raise EditRefused(
                "the data is neither arrays nor a tf.data pipeline, or class_weight is set",
                "data whose batches reach the training step unchanged",
                "keep the map in the input pipeline",
            )
        self._map = self._found(read_pipeline(feed.dataset))
        self.load_device_data()
        return self._map

    def _of_arrays(self, pipeline: Pipeline) -> TrailingMaps:
        """Arrays are read anew for each ``fit``, and may hold something else by then."""
        found = self._found(read_pipeline(gather_keras_arrays(pipeline)))
        if self._keeps and self._map is not None:
            return replace(self._map, input_dataset=found.input_dataset)
        self._map = found
        self.load_device_data()
        if self.has_changed:
            self._model.train_function = None  # the rows are part of it
        return found

    def _found(self, pipeline: Pipeline) -> TrailingMaps:
        found = find_expected_maps(pipeline, self._expects)
        self._check_room(found)
        return found

    def _check_room(self, found: TrailingMaps) -> None:
        left = (
            free_device_bytes(step_device(self._model)) if found.resident_bytes > _TRIFLE else None
        )
        if left is not None and found.resident_bytes > left:
            raise EditRefused(
                f"the arrays take {found.resident_bytes / 1e9:.1f} GB, and the training "
                f"device has {left / 1e9:.1f} GB free",
                "enough free device memory for the arrays",
                "run 'uncork tune' again to make a plan for this device",
            )

    def load_device_data(self) -> None:
        """Copy the rows that the step gathers to its device, once the data is known.

        Raises:
            EditRefused: There is no room.
        """
        if self._map is None:
            return
        try:
            self._map.load_rows(step_device(self._model))
        except tf.errors.ResourceExhaustedError:
            self._map.release_rows()
            raise EditRefused(
                "the training device has less than "
                f"{self._map.resident_bytes / 1e9:.1f} GB of free memory",
                "enough free device memory for the arrays and the model",
                "run 'uncork tune' again to make a plan for this device",
            ) from None

    def release_memory(self) -> None:
        """Release that memory until the next use."""
        for each in (self._traced, self._map):
            if each is not None:
                each.release_rows()

    @contextmanager
    def patch_model(self) -> Iterator[None]:
        """Where Keras makes what it trains the model with, inside the block, batches are made.

        A batch that is made already is trained on as ever.
        """
        model = self._model
        make = model.make_train_function

        def make_train_function(force: bool = False) -> Any:
            step = model.train_step

            def train_step(data: Any) -> Any:
                return step(self._made(data.batch) if isinstance(data, UnmappedBatch) else data)

            if model.train_function is None or force:
                with override_attribute(model, "train_step", train_step):
                    make(force=force)
            return model.train_function

        with override_attribute(model, "make_train_function", make_train_function):
            yield

    def _made(self, batch: Any) -> Any:
        assert self._map is not None
        self._traced = self._map
        return self._map.on_device(step_device(self._model))(batch)


def _marked(taken: TrailingMaps) -> Any:
    return taken.input_dataset.map(lambda *given: UnmappedBatch(given), tf.data.AUTOTUNE)


def array_reads_in_step(feed: Feed, model: Any) -> StepOffload | None:
    """What the step could do of reading arrays; None where it could not, or there are none."""
    if feed.kind != "numpy":
        return None
    with suppress(EditRefused):
        found = find_trailing_maps(
            read_pipeline(gather_keras_arrays(read_pipeline(feed.batches_dataset(model))))
        )
        return found[-1].to_step_offload() if found else None
    return None


def create_map_in_step(
    model: Any, edits: tuple[StepEdit, ...], *, has_constant_arrays: bool = False
) -> MapInStep | None:
    """The step that runs the last maps of its data; None where no edit requests it.

    Args:
        model: The user's.
        edits: All that are in force.
        has_constant_arrays: As of :class:`MapInStep`.

    Raises:
        EditRefused: It cannot be done in this model's step.
    """
    edit = find_map_on_device(edits)
    if edit is not None and any(isinstance(other, LayersInInput) for other in edits):
        raise EditRefused(
            "the input pipeline runs the first layers of the model after the last map",
            "a map whose batches go directly to the step",
            "keep the map in the input pipeline",
        )
    return MapInStep(model, edit, has_constant_arrays=has_constant_arrays) if edit else None
