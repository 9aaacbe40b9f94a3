"""Elements whose last maps run on another device when a loop reads them.

The loop is given what it was always given: tensors of the same dtypes, shapes and values, in the
same structure. Only where they lie is new, and that what was sent there is what the maps take. What
the maps hand on as they get it, labels say, stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.compat.tfdata.iterators import ConvertedIterator
from uncork.core.base.errors import EditRefused
from uncork.pipeline.functions.function_graph import Tensor
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.transforms.trailing_maps import TrailingMaps, find_expected_maps


class DeviceMappedPipeline:
    """A pipeline whose last maps run on a device when an element is read.

    Args:
        pipeline: With these maps.
        expected_digest: Digest of what they do.
        device: In TensorFlow's words.

    Attributes:
        input_dataset: The pipeline without them: what is sent.
        element_spec: Of the elements that are made.

    Raises:
        EditRefused: It does not end with these maps, or there is no such device.

    Example:
        >>> from uncork.pipeline.transforms.trailing_maps import find_trailing_maps
        >>> from uncork.pipeline.ir.tree import read_pipeline
        >>> pixels = tf.data.Dataset.from_tensors((tf.zeros([4], tf.uint8), 7)).batch(2)
        >>> scaled = read_pipeline(pixels.map(lambda x, y: (tf.cast(x, tf.float32), y)))
        >>> there = DeviceMappedPipeline(
        ...     scaled, find_trailing_maps(scaled)[0].digest, tf.zeros([]).device
        ... )
        >>> there.input_dataset.element_spec[0].dtype, next(there.create_iterator())[0].dtype
        (tf.uint8, tf.float32)
    """

    def __init__(self, pipeline: Pipeline, expected_digest: str, device: str) -> None:
        self._maps = find_expected_maps(pipeline, expected_digest)
        self.input_dataset: Dataset = self._maps.input_dataset
        self.element_spec: Any = self._maps.element_spec
        self._handed_on = self._maps.passthrough_inputs
        _check(device)
        try:
            self._make = _compiled(self._maps, device)
        except tf.errors.ResourceExhaustedError:
            raise EditRefused(
                f"{device} has no free memory for the arrays that the last maps hold",
                "free memory for them and for the model",
                "run 'uncork tune' again to create a plan for this device",
            ) from None

    def map_element(self, element: Any) -> Any:
        """What the maps make of an element of :attr:`input_dataset`, on the device."""
        flat = tf.nest.flatten(element)
        made = iter(self._make(*flat))
        parts = [next(made) if i is None else flat[i] for i in self._handed_on]
        return tf.nest.pack_sequence_as(self.element_spec, parts)

    def pair_with_host_results(self) -> Dataset:
        """Pairs: each element of :attr:`input_dataset`, and what the maps return for it."""
        return self.input_dataset.map(lambda *given: (given, self._maps.map_element(given)))

    def create_iterator(
        self,
        iterate_dataset: Callable[[Dataset], Any] = iter,
        visible_dataset: Dataset | None = None,
    ) -> ConvertedIterator:
        """Over the elements as they are made.

        Args:
            iterate_dataset: Gives TensorFlow's own iterator over a dataset.
            visible_dataset: What a loop iterates over, as it sees it; lives as long as the
                iterator.
        """
        source = iterate_dataset(self.input_dataset)
        return ConvertedIterator(
            source,
            self.element_spec,
            self.map_element,
            onward=lambda: _onward(self, source),
            keep_alive=visible_dataset,
        )


def _onward(there: DeviceMappedPipeline, source: Iterator[Any]) -> Iterator[Any]:
    """TensorFlow's own iterator over the remaining elements, which are made in Python."""
    remaining = tf.data.Dataset.from_generator(
        lambda: map(there.map_element, source), output_signature=there.element_spec
    )
    return iter(remaining.with_options(_as_asked()))


def _as_asked() -> tf.data.Options:
    """Nothing is taken before it is asked for: the loop may go on by itself."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return options


def _compiled(maps: TrailingMaps, device: str) -> Callable[..., list[Tensor]]:
    """What they make, and do not only hand on, of flat tensors."""
    made_of, handed_on = maps.on_device(device), maps.passthrough_inputs

    def make(*flat: Tensor) -> list[Tensor]:
        parts = zip(tf.nest.flatten(made_of(flat)), handed_on, strict=True)
        return [part for part, origin in parts if origin is None]

    specs = tf.nest.flatten(maps.input_dataset.element_spec)
    compiled: Callable[..., list[Tensor]] = tf.function(
        make, autograph=False
    ).get_concrete_function(*specs)
    return compiled


def _check(device: str) -> None:
    if not _is_there(device):
        raise EditRefused(
            f"this machine has no device {device}",
            "the device that the training step ran on when the plan was created",
            "run 'uncork tune' again to create a plan for this machine",
        )


def _is_there(device: str) -> bool:
    """TensorFlow may take another one in its place."""
    try:
        with tf.device(device):
            found = tf.constant(0.0).device
    except (tf.errors.OpError, ValueError, RuntimeError):
        return False
    return bool(tf.DeviceSpec.from_string(found) == tf.DeviceSpec.from_string(device))
