"""Elements whose last maps are done on a device: what the loop gets is what it always got."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.device_iterator import DeviceMappedPipeline
from uncork.pipeline.transforms.trailing_maps import find_trailing_maps

Dataset = tf.data.Dataset
HERE = tf.zeros([]).device
PIXELS = np.random.default_rng(3).integers(0, 256, (20, 5), "uint8")
LABELS = np.arange(20)


def batches(work=None):
    made = Dataset.from_tensor_slices((PIXELS, LABELS)).batch(8)
    return made.map(work or scaled, tf.data.AUTOTUNE).prefetch(1)


def scaled(x, y):
    return tf.cast(x, tf.float32) / 255.0, y


def named(x, y):
    return {"label": y, "pixels": tf.cast(x, tf.float32) / 3.0, "again": (y, x)}


def one_hot(x, y):
    return x, tf.one_hot(y, 20)


def alone(x, y):
    del y
    return tf.cast(x, tf.float32) * 0.1


def of(dataset, device=HERE):
    pipeline = read_pipeline(dataset)
    return DeviceMappedPipeline(pipeline, find_trailing_maps(pipeline)[-1].digest, device)


def same(made, wanted):
    tf.nest.assert_same_structure(made, wanted)
    for a, b in zip(tf.nest.flatten(made), tf.nest.flatten(wanted), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.parametrize("work", [scaled, named, one_hot, alone])
def test_elements_are_equal_bit_for_bit(work):
    dataset = batches(work)
    there = of(dataset)
    assert there.element_spec == dataset.element_spec
    made, wanted = list(there.create_iterator()), list(dataset)
    assert len(made) == len(wanted) == 3
    for one, other in zip(made, wanted, strict=True):
        same(one, other)
    for (given, here), other in zip(there.pair_with_host_results(), wanted, strict=True):
        same(here, other)
        same(there.map_element(given), other)


def test_several_maps_are_one_call():
    dataset = Dataset.from_tensor_slices((PIXELS, LABELS)).batch(8).map(scaled)
    dataset = dataset.map(lambda x, y: (tf.transpose(x) - 0.5, tf.one_hot(y, 20)))
    there = of(dataset)
    assert there.input_dataset.element_spec[0].dtype == tf.uint8
    for one, other in zip(there.create_iterator(), dataset, strict=True):
        same(one, other)


def test_what_is_handed_on_stays_where_it_is():
    there = of(batches(named))
    given = next(iter(there.input_dataset))
    made = there.map_element(given)
    assert made["label"] is given[1]
    assert made["again"] == (given[1], given[0])


def test_the_iterator_passes_for_tensorflows_own():
    dataset = batches()
    plain, made = iter(dataset), of(dataset).create_iterator()
    assert isinstance(made, type(plain))
    assert made.element_spec == plain.element_spec

    @tf.function
    def step(iterator):
        return next(iterator)

    assert step.get_concrete_function(made) is step.get_concrete_function(plain)
    same(next(made), next(plain))
    same(step(made), step(plain))  # goes on where Python was
    same(made.get_next(), plain.get_next())
    with pytest.raises(tf.errors.OutOfRangeError):
        made.get_next()
    assert not bool(made.get_next_as_optional().has_value())
    assert list(made) == []
    with pytest.raises(AttributeError):
        _ = made.no_such_attribute


def test_what_the_loop_iterates_over_lives_as_long():
    """A cache in files is filled by one reader at a time, who is known by it."""
    there, of_loop = of(batches()), batches()
    told, made = weakref.ref(of_loop), there.create_iterator(iter, of_loop)
    del of_loop
    gc.collect()
    assert told() is not None
    del made
    gc.collect()
    assert told() is None


def test_a_checkpoint_keeps_where_it_is(tmp_path):
    there = of(batches())
    made = there.create_iterator()
    next(made)
    path = tf.train.Checkpoint(data=made).write(str(tmp_path / "data"))
    second = next(made)
    again = there.create_iterator()
    tf.train.Checkpoint(data=again).read(path)
    same(next(again), second)


@pytest.mark.parametrize(
    ("dataset", "device", "received"),
    [
        (batches(), "/job:localhost/replica:0/task:0/device:GPU:7", "no device"),
        (batches(), "/job:card/task:0/device:CPU:0", "no device"),
        (batches(), "nonsense", "no device"),
        (batches().shuffle(2), HERE, "no such map"),
    ],
)
def test_what_is_not_there_is_refused(dataset, device, received):
    digest = find_trailing_maps(read_pipeline(batches()))[0].digest
    with pytest.raises(EditRefused, match=received):
        DeviceMappedPipeline(read_pipeline(dataset), digest, device)
