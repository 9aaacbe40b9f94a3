"""What feeds a ``fit`` call, and how Keras turns it into batches."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import GeneratorType
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from uncork.compat.keras3.data_adapters import train_validation_split
from uncork.compat.keras3.trainer import TFEpochIterator, distributed_dataset, release_iterators
from uncork.core.base.errors import WrongUse
from uncork.core.documents.workload import DataKind
from uncork.pipeline.ir.tree import read_pipeline
from uncork.training.input.array_feed import (
    PipelineRewrite,
    rewrite_array_pipeline,
    single_threaded_dataset,
)
from uncork.training.input.generator_stream import SharedGenerator
from uncork.training.input.loader_edits import stop_workers

# Kinds of dtypes, as NumPy has them, that TensorFlow knows as well.
_NUMBERS: Final = "biuf"
# Samples of a batch of arrays where ``fit`` is told none: Keras's own default.
DEFAULT_BATCH_SIZE: Final = 32


@dataclass(frozen=True)
class Feed:
    """The data arguments of ``fit``, as Keras takes them.

    Attributes:
        x: Dataset, arrays, PyDataset, generator, or what stands in for one.
        y: Targets, None where ``x`` brings them.
        sample_weight: As given.
        batch_size: As given; Keras's default is 32 for arrays.
        steps_per_epoch: As given.
        shuffle: As given; acts on arrays only.
        class_weight: As given.
        resident_batch_count: Batches that a resident feed gives in turn, 0 of any other.
        is_recorded: The batches are held in memory, as the training step is to be given them.
        array_rewrite: What is made of the pipeline that Keras reads arrays through; None for that
            itself.
        tensor_cache: What Keras makes of large arrays before it cuts batches from them, which takes
            longer than many steps: made once for all that is read of the same data.
    """

    x: Any
    y: Any = None
    sample_weight: Any = None
    batch_size: int | None = None
    steps_per_epoch: int | None = None
    shuffle: bool = True
    class_weight: Any = None
    resident_batch_count: int = 0
    is_recorded: bool = False
    array_rewrite: PipelineRewrite | None = None
    tensor_cache: dict[int, tuple[Any, Any]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Feed:
        """From the arguments of a ``fit`` call; a validation split is set aside as Keras does."""
        x, y, weight = (arguments.get(k) for k in ("x", "y", "sample_weight"))
        split = arguments.get("validation_split") or 0.0
        if split and arguments.get("validation_data") is None:
            (x, y, weight), _ = train_validation_split((x, y, weight), split)
        shuffle = arguments.get("shuffle")
        return cls(
            x=x,
            y=y,
            sample_weight=weight,
            batch_size=arguments.get("batch_size"),
            steps_per_epoch=arguments.get("steps_per_epoch"),
            # Keras ignores it for others, and warns.
            shuffle=shuffle is not False and not isinstance(x, (tf.data.Dataset, SharedGenerator)),
            class_weight=arguments.get("class_weight"),
        )

    @property
    def dataset(self) -> Any | None:
        """The tf.data pipeline, if that is what feeds this training."""
        return self.x if isinstance(self.x, tf.data.Dataset) else None

    @property
    def kind(self) -> DataKind:
        """What feeds it, in the plan's words."""
        if isinstance(self.x, tf.data.Dataset):
            return "tf.data"
        if isinstance(self.x, keras.utils.PyDataset):
            return "pydataset"
        if (
            isinstance(self.x, SharedGenerator)
            or hasattr(self.x, "__next__")
            or hasattr(self.x, "send")
        ):
            return "generator"
        leaves = keras.tree.flatten(self.x)
        return "numpy" if leaves and all(hasattr(v, "shape") for v in leaves) else "other"

    @property
    def spec(self) -> str:
        """Structure, dtypes and shapes of one batch, without reading any."""
        if self.kind == "tf.data":
            return spec_text(self.x.element_spec)
        if self.kind == "numpy":
            return spec_text(
                tuple(v for v in (self.x, self.y, self.sample_weight) if v is not None)
            )
        return (
            GeneratorType.__name__ if isinstance(self.x, SharedGenerator) else type(self.x).__name__
        )

    def with_dataset(self, dataset: Any) -> Feed:
        """The same with another pipeline."""
        return replace(self, x=dataset)

    def with_batch_size(self, batch_size: int) -> Feed:
        """The same, arrays cut into batches of another size."""
        return replace(self, batch_size=batch_size)

    def with_single_threaded_arrays(self) -> Feed:
        """The same, arrays cut in the thread that reads them."""
        return self.with_array_rewrite(single_threaded_dataset)

    def with_array_rewrite(self, rewrite: PipelineRewrite) -> Feed:
        """The same, arrays read through what this makes of the pipeline that they have now."""
        before = self.array_rewrite
        if before is None:
            return replace(self, array_rewrite=rewrite)
        return replace(
            self, array_rewrite=lambda pipeline: rewrite(read_pipeline(before(pipeline)))
        )

    def with_resident_batches(self, batches: Sequence[Any]) -> Feed:
        """Some batches over and over, from memory: nothing but the step is left to pay.

        They come out of Keras's own adapter, so weights by class or sample are in them already.
        """
        single = [tf.data.Dataset.from_tensors(batch) for batch in batches]
        dataset = functools.reduce(tf.data.Dataset.concatenate, single).repeat()
        return Feed(
            x=dataset,
            steps_per_epoch=1 << 20,
            shuffle=False,
            resident_batch_count=len(batches),
            is_recorded=True,
        )

    def create_epoch_iterator(self, model: Any) -> Any:
        """Keras's own epoch iterator over this feed.

        Raises:
            EditRefused: Its arrays cannot be read as they are to be.
        """
        with rewrite_array_pipeline(self.array_rewrite) if self.array_rewrite else nullcontext():
            return TFEpochIterator(
                x=self.x.create_reader()
                if isinstance(self.x, SharedGenerator)
                else self._as_tensors(self.x),
                y=self._as_tensors(self.y),
                sample_weight=self._as_tensors(self.sample_weight),
                batch_size=self.batch_size,
                steps_per_epoch=self.steps_per_epoch,
                shuffle=self.shuffle,
                class_weight=self.class_weight,
                distribute_strategy=model.distribute_strategy,
                steps_per_execution=model.steps_per_execution,
            )

    def _as_tensors(self, part: Any) -> Any:
        return keras.tree.map_structure(self._as_tensor, part) if self.kind == "numpy" else part

    def _as_tensor(self, leaf: Any) -> Any:
        """What Keras makes of an array, each time that it is to be read."""
        is_array = isinstance(leaf, np.ndarray) and leaf.dtype.kind in _NUMBERS
        if not is_array or not leaf.dtype.isnative:
            return leaf
        if id(leaf) not in self.tensor_cache:
            dtype = keras.config.floatx() if leaf.dtype.kind == "f" else leaf.dtype
            with tf.device("CPU:0"):  # as tf.data, which reads it, has it there
                made = tf.convert_to_tensor(leaf.astype(dtype, copy=False))
            self.tensor_cache[id(leaf)] = leaf, made  # held: another array must not get its number
        return self.tensor_cache[id(leaf)][1]

    @contextmanager
    def open_epoch_iterator(self, model: Any) -> Iterator[Any]:
        """The epoch iterator, its data released at the end and not when Python next collects.

        It holds a generator that holds it, so TensorFlow's iterator and its threads would live on.
        """
        epochs = self.create_epoch_iterator(model)
        try:
            yield epochs
        finally:
            release_iterators(epochs)
            stop_workers(epochs)

    def batches_dataset(self, model: Any) -> Any:
        """The batches of one epoch as the step receives them, of all replicas together."""
        return self.dataset_of_epochs(self.create_epoch_iterator(model))

    @staticmethod
    def dataset_of_epochs(epochs: Any) -> Any:
        """The same of an epoch iterator."""
        dataset = distributed_dataset(epochs)
        return (
            dataset
            if isinstance(dataset, tf.data.Dataset)
            else epochs.data_adapter.get_tf_dataset()
        )


def iterate_executions(epochs: Any) -> Iterator[tuple[int, int, Any]]:
    """Of one epoch: the first and the last step of each, and the iterator that it reads.

    Args:
        epochs: From :meth:`Feed.create_epoch_iterator`.
    """
    for begin, *end, iterator in epochs:  # Keras tells the last step from 3.11 on
        yield begin, end[0] if end else begin + epochs.steps_per_execution - 1, iterator


def count_batch_samples(batch: Any) -> int | None:
    """Samples in one batch: the first dimension of its first dense leaf."""
    for leaf in tf.nest.flatten(batch, expand_composites=False):
        if isinstance(leaf, tf.RaggedTensor):
            return int(leaf.nrows())
        if isinstance(leaf, tf.SparseTensor):
            return int(leaf.dense_shape[0])
        if hasattr(leaf, "shape") and leaf.shape.rank:
            return int(leaf.shape[0])
    return None


def spec_text(structure: Any) -> str:
    """Structure, dtypes and shapes of one batch, as text that another process can compare.

    Args:
        structure: A dataset's ``element_spec``, or arrays that Keras cuts into batches.

    Example:
        >>> spec_text(tf.data.Dataset.range(6).batch(2).element_spec)
        'int64[batch]'
    """
    return str(tf.nest.map_structure(_spec, structure)).strip("'")


def _spec(leaf: Any) -> str:
    """Dtype and shape without the batch dimension, which the last batch may not share."""
    shape = getattr(leaf, "shape", None)
    shape = tf.TensorShape(shape) if shape is not None else None
    if shape is None or shape.rank is None:
        return type(leaf).__name__
    inner = "".join(f", {d}" for d in shape.as_list()[1:])
    return f"{_dtype(leaf)}[batch{inner}]"


def _dtype(leaf: Any) -> str:
    """TensorFlow's name where it has one; columns of a table may have one each, or their own."""
    dtype = getattr(leaf, "dtype", None)
    if dtype is None:
        return type(leaf).__name__
    try:
        return str(tf.as_dtype(dtype).name)
    except TypeError:
        return str(dtype)


def require_repeatable(feed: Feed) -> None:
    """Refuse what trials cannot read again and again.

    Raises:
        WrongUse: With what to pass instead.
    """
    if feed.kind == "generator" and not isinstance(feed.x, SharedGenerator):
        raise WrongUse(
            "the training reads a Python generator, which can be read only once",
            "data that can be read again: tf.data, arrays or a PyDataset",
            "wrap it: tf.data.Dataset.from_generator(function, output_signature=...); or let "
            "each process read it once: uncork tune SCRIPT",
        )
    if isinstance(feed.x, tf.distribute.DistributedDataset):
        raise WrongUse(
            "the training reads a dataset that is distributed already",
            "the tf.data.Dataset itself",
            "remove experimental_distribute_dataset: fit distributes the data under a strategy",
        )
