"""The last map of a pipeline: which can be done elsewhere, and that it makes the same there."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from uncork.core.edit import VectorizeMap
from uncork.pipeline import apply, last_map, read
from uncork.pipeline.last_map import in_step

Dataset = tf.data.Dataset
PIXELS = np.random.default_rng(3).integers(0, 256, (24, 5, 4, 3), "uint8")
LABELS = np.arange(24)
MEAN = tf.constant(np.random.default_rng(4).normal(size=(5, 4, 3)), tf.float32)


def images():
    return Dataset.from_tensor_slices((PIXELS, LABELS))


def scaled(x, y):
    return tf.cast(x, tf.float32) / 255.0, y


def centred(x, y):
    return (tf.cast(x, tf.float32) - MEAN) * 0.5, tf.one_hot(y, 24)


def flipped(x, y):
    return tf.image.random_flip_left_right(tf.cast(x, tf.float32)), y


def logged(x, y):
    tf.print(y)
    return scaled(x, y)


def in_python(x, y):
    return tf.numpy_function(np.float32, [x], tf.float32), y


def resized(x, y):
    return tf.image.resize(x, (8, 8)), y


def batches(work=scaled):
    return images().batch(8).map(work, tf.data.AUTOTUNE)


def on_cpu():
    with tf.device("CPU"):
        return batches(centred)


FOUND = {
    "at the end": batches,
    "with what hands on behind it": lambda: batches().prefetch(2).repeat(2),
    "with numbers of its own": lambda: batches(centred),
    "made on a device that its author named": on_cpu,
    "between a shuffle and what repeats it": lambda: images().shuffle(9).batch(8).map(scaled),
}
OTHERS = {
    "it draws": lambda: batches(flipped),
    "it prints": lambda: batches(logged),
    "it runs Python": lambda: batches(in_python),
    "it does more": lambda: batches(resized),
    "something is done behind it": lambda: batches().shuffle(3),
    "it takes words": lambda: Dataset.from_tensors("a").map(tf.strings.length),
    "it keeps a shuffle and a repeat apart": lambda: images().shuffle(9).map(scaled).repeat(2),
    "there is none": lambda: images().batch(8),
}


@pytest.mark.parametrize("kind", FOUND)
def test_what_it_makes_elsewhere_is_the_same(kind):
    dataset = FOUND[kind]()
    found = last_map(read(dataset))
    assert found is not None
    assert found.widens
    device = tf.zeros([]).device
    step = tf.function(found.on(device))
    assert found.below.cardinality() == dataset.cardinality()
    if "shuffle" not in kind:
        again = found.below.map(lambda *given: found.made(given))
        for given, here, wanted in zip(found.below, again, dataset, strict=True):
            for made in (step(given), here):
                assert tf.nest.map_structure(tf.TensorSpec.from_tensor, made) == (
                    tf.nest.map_structure(tf.TensorSpec.from_tensor, wanted)
                )
                for a, b in zip(tf.nest.flatten(made), tf.nest.flatten(wanted), strict=True):
                    assert a.numpy().tobytes() == b.numpy().tobytes()


def test_every_op_of_it_runs_on_the_device_that_is_named():
    found = last_map(read(on_cpu()))
    device = "/job:localhost/replica:0/task:0/device:CPU:0"

    @tf.function
    def step(given):
        return found.on(device)(given)

    graph = step.get_concrete_function(found.below.element_spec).graph.as_graph_def()
    asked = {
        node.device for f in graph.library.function for node in f.node_def if node.op != "NoOp"
    }
    assert asked - {""} == {device}


@pytest.mark.parametrize("why", OTHERS)
def test_it_stays_where_it_is_where(why):
    assert last_map(read(OTHERS[why]())) is None


def test_what_makes_nothing_larger_is_told():
    found = last_map(read(batches(lambda x, y: (x[..., ::-1], y))))
    assert found is not None
    assert not found.widens


def places(dataset):
    return [place for place in read(dataset).places if place.node.kind == "map"]


def test_the_step_could_do_the_map_behind_the_batch():
    dataset = batches().prefetch(1)
    (place,) = places(dataset)
    assert in_step(place, stacked=False) == last_map(read(dataset)).digest


def test_it_could_do_one_below_the_batch_once_that_takes_whole_batches():
    dataset = images().map(scaled).shuffle(9, seed=2).batch(8)
    (place,) = places(dataset)
    assert in_step(place, stacked=False) == ""
    pipeline = read(dataset)
    edited = apply(pipeline, VectorizeMap(stage=1, expects=pipeline.digest))
    assert in_step(place, stacked=True) == last_map(edited).digest


def test_of_a_map_that_decodes_it_could_do_what_comes_after():
    encoded = [tf.io.encode_png(x).numpy() for x in PIXELS]

    def load(file, label):
        pixels = tf.ensure_shape(tf.io.decode_png(file, channels=3), (5, 4, 3))
        return tf.cast(pixels, tf.float32) / 255.0, label

    dataset = Dataset.from_tensor_slices((encoded, LABELS)).map(load).batch(8)
    (place,) = places(dataset)
    assert in_step(place, stacked=True)


def test_neither_one_below_another_map_nor_one_in_a_branch():
    below, above = places(images().batch(8).map(scaled).map(lambda x, y: (x, y + 1)))
    assert in_step(below, stacked=False) == ""
    assert in_step(above, stacked=False) == ""  # it makes nothing larger
    joined = Dataset.zip((images().batch(8).map(scaled), Dataset.range(3)))
    (place,) = places(joined)
    assert in_step(place, stacked=False) == ""
