"""Elements whose last maps run on another device when a loop reads them.

The loop is given what it was always given: tensors of the same dtypes, shapes and values, in the
same structure. Only where they lie is new, and that what was sent there is what the maps take. What
the maps hand on as they get it, labels say, stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.data.util import structure

from uncork.compat.tfdata.dataset_ops import Dataset
from uncork.core.base.errors import EditRefused
from uncork.pipeline.functions.function_graph import Tensor
from uncork.pipeline.ir.tree import Pipeline
from uncork.pipeline.transforms.trailing_maps import TrailingMaps, find_expected_maps

# Where TensorFlow's iterator keeps what reads ahead for it.
_RESOURCE: Final = "_iterator_resource"


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
    ) -> DeviceMappedIterator:
        """Over the elements as they are made.

        Args:
            iterate_dataset: Gives TensorFlow's own iterator over a dataset.
            visible_dataset: What a loop iterates over, as it sees it; lives as long as the
                iterator.
        """
        return DeviceMappedIterator(self, iterate_dataset(self.input_dataset), visible_dataset)


class DeviceMappedIterator(OwnedIterator):  # type: ignore[misc]
    """Passes for TensorFlow's iterator over the pipeline as written.

    Args:
        mapped_pipeline: Makes the elements.
        source: Over what they are made from; shared by all that stand in for this iterator.
        visible_dataset: As of :meth:`DeviceMappedPipeline.create_iterator`.
    """

    def __init__(
        self, mapped_pipeline: DeviceMappedPipeline, source: Any, visible_dataset: Dataset | None
    ) -> None:
        self._there, self._source, self._of = mapped_pipeline, source, visible_dataset
        self._dataset = source._dataset
        self._element_spec = mapped_pipeline.element_spec
        self._flat_output_types = structure.get_flat_tensor_types(mapped_pipeline.element_spec)
        self._flat_output_shapes = structure.get_flat_tensor_shapes(mapped_pipeline.element_spec)
        self._get_next_call_count = 0

    def _next_internal(self) -> Any:
        if not tf.executing_eagerly():
            return super()._next_internal()
        return self._there.map_element(self._source._next_internal())

    def __getattr__(self, name: str) -> Any:
        """A function that is given the iterator takes its elements from a resource: it gets one."""
        if name != _RESOURCE or "_source" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        there, source = self._there, self._source
        with tf.init_scope():
            onward = tf.data.Dataset.from_generator(
                lambda: _onward(there, source), output_signature=there.element_spec
            )
            self._onward = iter(onward.with_options(_as_asked()))
            self._iterator_resource = self._onward._iterator_resource
        return self._iterator_resource

    # Where it is, is where its source is: a checkpoint keeps that.
    def _serialize_to_tensors(self) -> Any:
        return self._source._serialize_to_tensors()

    def _restore_from_tensors(self, restored_tensors: Any) -> Any:
        return self._source._restore_from_tensors(restored_tensors)

    def _save(self) -> Any:
        return self._source._save()

    def _restore(self, state: Any) -> Any:
        return self._source._restore(state)


def _onward(there: DeviceMappedPipeline, source: Iterator[Any]) -> Iterator[Any]:
    return map(there.map_element, source)


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
