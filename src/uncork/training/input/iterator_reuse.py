"""What ``fit``, ``evaluate`` and ``predict`` read arrays through, kept from one call to the next.

Each of these calls makes a pipeline of its arrays, has TensorFlow trace and instantiate its
functions, and throws it away: 40 ms before the first step. For a call of a few steps that is nearly
all it takes. Here the batches are cut as Keras cuts them and handed to one iterator through a
queue; the function that reads it is the model's own, traced once for batches of this form, and the
callbacks, metrics and histories are Keras's.

A seeded ``fit`` shuffles each of its epochs in the same order, which is read from Keras's own
pipeline the first time. An unseeded one draws an order that nobody can foresee, here as there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from uncork.compat.keras3.data_adapters import (
    ArrayDataAdapter,
    ArrayLayout,
    layout_of,
    to_sliceable,
)
from uncork.compat.keras3.trainer import (
    HAS_STEP_GENERATOR,
    EpochIterator,
    TFEpochIterator,
    epoch_iterator_class,
    use_epoch_iterator,
)
from uncork.compat.tf.devices import is_default_strategy
from uncork.compat.tf.eager_context import global_seed
from uncork.core.edits.step import ReuseIterator, StepEdit

# Batches of a call. What takes more of them gains little, and is better read ahead of its steps.
MAX_BATCHES: Final = 32
# Forms of batches, and orders of seeded shuffles, that are kept at the same time.
_MOST_KEPT: Final = 64
_HOST: Final = "/CPU:0"
# What they read; a call of Keras's gives each by name.
_GIVEN: Final = ("x", "y", "sample_weight")


class ReusedIterators:
    """The iterators that are kept, each for batches of one form.

    Example:
        >>> import keras, numpy as np
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        >>> model.compile(loss="mse")
        >>> x, kept = np.ones((3, 2), "float32"), ReusedIterators()
        >>> with kept.active():
        ...     [model.evaluate(x, x[:, :1], verbose=0) > 0 for _ in range(2)]
        [True, True]
        >>> kept.epoch_count, kept.iterator_count
        (2, 1)

    Attributes:
        epoch_count: Epochs that were read through one.
        iterator_count: How many there are.
    """

    def __init__(self) -> None:
        self.epoch_count = self.iterator_count = 0
        self._free: dict[Any, list[_Lane]] = {}
        self._orders = _Orders()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Calls of Keras's inside the block read small arrays through what is kept."""
        outer = epoch_iterator_class()
        self.activate()
        try:
            yield
        finally:
            use_epoch_iterator(outer)

    def activate(self) -> None:
        """The same for all calls from now on."""
        use_epoch_iterator(type(TFEpochIterator.__name__, (_Epochs,), {"iterators": self}))

    @staticmethod
    def restore() -> None:
        """Calls from now on read through Keras's own."""
        use_epoch_iterator(TFEpochIterator)

    @contextmanager
    def open_iterator(self, batches: Any, spec: Any) -> Iterator[Any]:
        """An iterator over these batches.

        It is kept for the next epoch only where this one was read to its end, and no further.

        Args:
            batches: Each a list of tensors.
            spec: Of a batch: a structure of ``tf.TensorSpec``.
        """
        free = self._free.setdefault(_key(spec), [])
        lane = free.pop() if free else self._new_lane(spec)
        self.epoch_count += 1
        try:
            lane.put(batches)
            yield lane.iterator
        except BaseException:  # left, perhaps while Python collects garbage: no op may run here
            self.iterator_count -= 1
            raise
        if lane.is_read:
            free.append(lane)
        else:
            self.iterator_count -= 1

    @contextmanager
    def open_python_batches(self, batches: Any, spec: Any) -> Iterator[Any]:
        """The same batches for somebody who takes them in Python: nothing need be kept."""
        self.epoch_count += 1
        yield (keras.tree.pack_sequence_as(spec, batch) for batch in batches)

    def can_serve(self, adapter: Any, steps_per_execution: int) -> bool:
        """Whether a call is brief, and of a kind whose batches are sure to be the same."""
        if not HAS_STEP_GENERATOR or type(adapter) is not ArrayDataAdapter:
            return False
        count, layout = adapter.num_batches, layout_of(adapter)
        return (
            0 < count <= MAX_BATCHES
            and count % steps_per_execution == 0
            and layout.shuffle in (True, False)
            and all(_is_dense(leaf) for leaf in keras.tree.flatten(layout.arrays))
            and (self.iterator_count < _MOST_KEPT or bool(self._free.get(_key(_spec(layout)))))
            and (not layout.shuffle or self._orders.knows(layout))
        )

    def copy_inputs(self, adapter: Any) -> CallInputs:
        """What all epochs of a call are cut from, as it is now."""
        layout = layout_of(adapter)
        rows = self._orders.order(layout) if layout.shuffle else np.arange(layout.samples)
        with tf.device(_HOST):
            sliceable = keras.tree.flatten(to_sliceable(layout.arrays))
            arrays = [tf.convert_to_tensor(array) for array in sliceable]
        return CallInputs(arrays, _spec(layout), layout.samples, layout.batch_size, rows)

    def cut_batches(self, inputs: CallInputs) -> list[list[Any]]:
        """One epoch, cut as Keras does."""
        rows = (
            self._orders.unseeded(inputs.sample_count)
            if inputs.row_order is None
            else inputs.row_order
        )
        with tf.device(_HOST):
            return [
                [
                    tf.gather(array, rows[begin : begin + inputs.batch_size])
                    for array in inputs.arrays
                ]
                for begin in range(0, inputs.sample_count, inputs.batch_size)
            ]

    def _new_lane(self, spec: Any) -> _Lane:
        self.iterator_count += 1
        return _Lane(spec)


@dataclass(frozen=True)
class CallInputs:
    """What a call was given. Keras copies it when the call begins, and trains on that to its end.

    Attributes:
        arrays: Copies of the user's, which may be written to by a callback, or a thread.
        spec: Of a batch.
        sample_count: Of samples.
        batch_size: Of a batch.
        row_order: The order of the samples; None for another one in each epoch.
    """

    arrays: list[Any]
    spec: Any
    sample_count: int
    batch_size: int
    row_order: Any


class _Epochs(TFEpochIterator):  # type: ignore[misc]
    """Keras's own, which makes no pipeline where it reads through a kept iterator."""

    iterators: ReusedIterators

    def __init__(self, distribute_strategy: Any = None, *args: Any, **kwargs: Any) -> None:
        # Of Keras's methods only predict gives none, and it takes its batches in Python.
        self._predicts = "y" not in kwargs
        self._taken: CallInputs | None = None
        alone = (
            tf.executing_eagerly()
            and not tf.distribute.has_strategy()
            and (distribute_strategy is None or is_default_strategy(distribute_strategy))
        )
        # An adapter of a generator reads from it when it is made: it must not be made twice.
        if alone and _are_dense([kwargs.get(name) for name in _GIVEN]):
            EpochIterator.__init__(self, *args, **kwargs)
            served = self.iterators.can_serve(self.data_adapter, self.steps_per_execution)
            if served and self.steps_per_epoch is None:
                self._taken = self.iterators.copy_inputs(self.data_adapter)
        if self._taken is None:
            super().__init__(distribute_strategy, *args, **kwargs)

    def _get_iterator(self) -> Any:
        return () if self._taken else super()._get_iterator()

    def _enumerate_iterator(self) -> Iterator[Any]:
        steps = super()._enumerate_iterator()
        if self._taken is None:
            yield from steps
            return
        batches = self.iterators.cut_batches(self._taken)
        read = (
            self.iterators.open_python_batches if self._predicts else self.iterators.open_iterator
        )
        with read(batches, self._taken.spec) as iterator:
            for *step, _ in steps:
                yield (*step, iterator)


class _Lane:
    """An iterator that gives what was put in for it, and then ends.

    Args:
        spec: Of its elements.
    """

    def __init__(self, spec: Any) -> None:
        leaves = keras.tree.flatten(spec)
        self._put, self._fed = 0, 0
        with tf.device(_HOST):
            self._queue = queue = tf.queue.FIFOQueue(2 * MAX_BATCHES, [s.dtype for s in leaves])
            self._asked = asked = tf.Variable(0, trainable=False, dtype=tf.int64)

            def is_there(_: Any) -> Any:
                asked.assign_add(1)
                return queue.size() > 0

            def take(_: Any) -> Any:
                found = queue.dequeue()
                found = list(found) if len(leaves) > 1 else [found]
                found = [tf.ensure_shape(f, s.shape) for f, s in zip(found, leaves, strict=True)]
                return keras.tree.pack_sequence_as(spec, found)

            dataset = tf.data.Dataset.counter().take_while(is_there).map(take)
            options = tf.data.Options()
            options.experimental_optimization.apply_default_optimizations = False
            options.autotune.enabled = False
            self.iterator = iter(dataset.with_options(options))

    def put(self, batches: list[list[Any]]) -> None:
        """Give these out next."""
        with tf.device(_HOST):
            for batch in batches:
                self._queue.enqueue(batch)
        self._put += len(batches)

    @property
    def is_read(self) -> bool:
        """All that was put in was asked for, and nothing after it."""
        return int(self._asked) == self._put


class _Orders:
    """In which order seeded calls of ``fit`` shuffle."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Any, Any] = OrderedDict()
        self._own = np.random.default_rng()

    def knows(self, layout: ArrayLayout) -> bool:
        """Whether an order costs no pipeline of its own; from its second call on it does not."""
        if global_seed() is None:
            return True
        key = self._key(layout)
        known = key in self._seen
        self._seen.setdefault(key, None)
        self._seen.move_to_end(key)
        while len(self._seen) > _MOST_KEPT:
            self._seen.popitem(last=False)
        return known

    def order(self, layout: ArrayLayout) -> Any:
        """Of the samples in each epoch of a call; None where no two epochs have the same."""
        if global_seed() is None:
            return None
        key = self._key(layout)
        if self._seen.get(key) is None:
            rows = np.arange(layout.samples)
            alike = ArrayDataAdapter(rows, batch_size=layout.batch_size, shuffle=True)
            batches = [np.asarray(batch) for batch, *_ in map(_tuple, alike.get_tf_dataset())]
            self._seen[key] = np.concatenate(batches)
        return self._seen[key]

    def unseeded(self, count: int) -> Any:
        """An order that nobody can foresee."""
        return self._own.permutation(count)

    @staticmethod
    def _key(layout: ArrayLayout) -> Any:
        return global_seed(), layout.samples, layout.batch_size


def create_reused_iterators(edits: tuple[StepEdit, ...]) -> ReusedIterators | None:
    """Iterators that are kept from call to call; None where no edit requests them.

    Example:
        >>> create_reused_iterators(()) is None
        True
    """
    wanted = any(isinstance(edit, ReuseIterator) for edit in edits)
    return ReusedIterators() if wanted else None


def _tuple(batch: Any) -> tuple[Any, ...]:
    return batch if isinstance(batch, tuple) else (batch,)


def _is_dense(leaf: Any) -> bool:
    if isinstance(leaf, tf.Tensor):
        return True
    return type(leaf) is np.ndarray and leaf.dtype.kind in "biuf"


def _are_dense(given: Any) -> bool:
    """Arrays and tensors, or none at all."""
    return all(leaf is None or _is_dense(leaf) for leaf in keras.tree.flatten(given))


def _spec(layout: ArrayLayout) -> Any:
    """Of the batches that Keras's own pipeline gives: of one length where they are."""
    length = None if layout.last_batch else layout.batch_size
    arrays = keras.tree.lists_to_tuples(to_sliceable(layout.arrays))
    return keras.tree.map_structure(
        lambda a: tf.TensorSpec((length, *a.shape[1:]), tf.as_dtype(a.dtype)), arrays
    )


def _key(spec: Any) -> Any:
    return tuple(keras.tree.flatten(spec)), repr(keras.tree.map_structure(lambda _: 0, spec))
