"""Random maps cut behind their draws."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline.helpers import epochs, measured
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import DrawFirst, SplitMap
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.functions.draw_split import split_off_draws
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

RANGE = tf.data.Dataset.range


def images(count=12):
    pictures = np.random.default_rng(1).integers(0, 255, (count, 9, 8, 3)).astype("uint8")
    return tf.data.Dataset.from_tensor_slices((pictures, np.arange(count)))


def cut(data, *stages, kind=DrawFirst):
    """Seeded twins of both are equal in two epochs."""
    before = epochs(create_seeded_copy(read_pipeline(data), 5).dataset)
    pipeline = create_seeded_copy(read_pipeline(data), 5)
    for stage in stages:
        pipeline = apply_edit(pipeline, kind(stage=stage, expected_digest=pipeline.digest))
    assert epochs(pipeline.dataset) == before
    assert pipeline.element_spec == data.element_spec
    assert int(pipeline.dataset.cardinality()) == int(data.cardinality())
    return pipeline


def flip(image, label):
    return tf.image.random_flip_left_right(tf.cast(image, tf.float32)) / 255.0, label


def crop(image, label):
    return tf.image.random_crop(image, (5, 5, 3)), label


def jitter(image, label):
    image = tf.image.random_brightness(tf.cast(image, tf.float32) / 255.0, 0.2)
    return tf.image.random_contrast(image, 0.5, 1.5, seed=3), {"label": label, "twice": label * 2}


def noisy(image, label):
    return tf.cast(image, tf.float32) + tf.random.normal(tf.shape(image)), label


@pytest.mark.parametrize("augment", [flip, crop, jitter, noisy])
def test_what_is_drawn_is_the_same(augment):
    after = cut(images().map(augment).batch(5), 1)
    kinds = [(node.kind, node.parallelism) for node in after.stages]
    assert kinds[1:3] == [("map", 1), ("map", tf.data.AUTOTUNE)]


def test_passes_go_on_drawing():
    pipeline = read_pipeline(images().map(flip).batch(4))
    after = apply_edit(pipeline, DrawFirst(stage=1, expected_digest=pipeline.digest))
    first, second = epochs(after.dataset)
    assert first.digests != second.digests


def test_a_map_that_was_split_before_can_be_cut_again():
    def load(image, label):
        return crop(tf.reverse(tf.image.rot90(image), [0]), label)

    pipeline = create_seeded_copy(read_pipeline(images().map(load).batch(4)), 5)
    before = epochs(create_seeded_copy(read_pipeline(images().map(load).batch(4)), 5).dataset)
    pipeline = apply_edit(pipeline, SplitMap(stage=1, expected_digest=pipeline.digest))
    pipeline = apply_edit(pipeline, DrawFirst(stage=2, expected_digest=pipeline.digest))
    assert epochs(pipeline.dataset) == before
    assert [node.parallelism for node in pipeline.stages[1:4]] == [-1, 1, -1]


def test_tables_are_only_read():
    names = tf.constant(["a", "b"])
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant([0, 1], tf.int64), names), "?"
    )

    def look(x):
        drawn = tf.random.uniform([], 0, 2, tf.int64)
        return table.lookup(drawn), tf.cast(x + drawn, tf.float32)

    cut(RANGE(20).map(look), 1)


def test_a_dictionary_comes_and_goes():
    data = images().map(lambda image, label: {"image": image, "label": label})

    def augment(row):
        return {**row, "image": tf.image.random_flip_up_down(row["image"])}

    cut(data.map(augment), 2)


def test_assertions_still_fail_at_the_same_element():
    def checked(x):
        tf.debugging.assert_less(x, np.int64(7))
        return tf.strings.as_string(x) + tf.strings.as_string(tf.random.uniform([]))

    data = RANGE(12).map(checked)
    before, after = (
        epochs(create_seeded_copy(read_pipeline(data), 5).dataset),
        epochs(cut(data, 1).dataset),
    )
    assert before[0].error
    assert len(after[0].digests) == 7


COUNT = tf.Variable(np.int64(0))


def counting(x):
    return x + COUNT.assign_add(1) + tf.random.uniform([], 0, 9, tf.int64)


def scaled(x):
    return (x + tf.random.uniform([], 0, 9, tf.int64)) * COUNT


def asking_python(x):
    drawn = tf.random.uniform([], 0, 9, tf.int64)
    return tf.numpy_function(lambda v: v + 1, [x + drawn], tf.int64)


def branching(x):
    return tf.cond(
        tf.random.uniform([]) < 0.5, lambda: x, lambda: x + tf.random.uniform([], 0, 9, tf.int64)
    )


@pytest.mark.parametrize(
    "data",
    [
        lambda: RANGE(5).map(lambda x: x * 3),
        lambda: RANGE(5).map(lambda x: tf.random.uniform([])),
        lambda: RANGE(5).map(counting),
        lambda: RANGE(5).map(scaled),
        lambda: RANGE(5).map(asking_python),
        lambda: RANGE(5).map(branching),
        lambda: RANGE(5).map(lambda x: x * tf.random.uniform([], 0, 9, tf.int64), 2),
        lambda: RANGE(5).shuffle(3),
    ],
)
def test_what_cannot_be_cut_is_left_whole(data):
    pipeline = read_pipeline(data())
    with pytest.raises(EditRefused):
        apply_edit(pipeline, DrawFirst(stage=1, expected_digest=pipeline.digest))


def test_its_draws_are_timed():
    stages = measured(images(64).map(flip).batch(8), batch_size=8)
    assert stages[1].random_part.deterministic_op_count >= 3
    assert 0 <= stages[1].random_part.cpu_s_per_element <= stages[1].cpu_s_per_element


def test_the_user_s_function_is_not_traced_again():
    traced = []

    def augment(image, label):
        traced.append(1)
        return flip(image, label)

    data = images().map(augment)
    cut(data, 1)
    assert split_off_draws(read_pipeline(data).stages[1].functions[0]).deterministic_op_count > 0
    assert len(traced) == 1


def distorted(image, label):
    """As Inception crops: TensorFlow orders the check of sizes behind the draw."""
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        [9, 8, 3], tf.zeros([1, 1, 4]), 0.1, use_image_if_no_bounding_boxes=True
    )
    tf.debugging.assert_positive(size[0])
    cropped = tf.slice(tf.cast(image, tf.float32), begin, size)
    return tf.image.resize(cropped, [6, 6]) / 255.0, label


def test_distorted_boxes_are_drawn_like_other_numbers():
    found = cut(images().map(distorted), 1)
    assert [node.kind for node in found.stages] == ["from_tensor_slices", "map", "map"]
