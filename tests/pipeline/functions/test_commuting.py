"""Scaling that is done before values are moved about, and not after: the same bits, sooner."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.helpers import epochs
from uncork.core.edits.pipeline import Cache, SplitMap
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.functions.splitting import split_deterministic_prefix
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

SIDE = 6
IMAGES = tf.data.Dataset.from_tensor_slices(
    np.random.default_rng(0).integers(0, 256, (8, SIDE, SIDE, 3)).astype("uint8")
)
FLIP = keras.layers.RandomFlip("horizontal_and_vertical", seed=3)


def made(image):
    return tf.sqrt(tf.cast(tf.image.resize(image, [9, 9]), tf.float32))


def flipped_then_divided(image):
    return tf.image.random_flip_left_right(made(image)) / 255.0


def flipped_twice_then_normalized(image):
    image = tf.image.random_flip_up_down(tf.image.random_flip_left_right(made(image)))
    return tf.maximum((image - 0.45) * 3.7, 0.0)


def by_keras(image):
    return FLIP(made(image), training=True) / 127.5 - 1.0


def chosen(image):
    image = made(image)
    image = tf.where(tf.random.uniform([]) < 0.5, tf.reverse(image, [1]), image)
    return 1.0 / tf.maximum(image, 1.0), tf.shape(image)


def checked_where_it_is_mirrored(image):
    image = made(image)

    def mirrored():
        tf.debugging.assert_less(image, 99.0)
        return tf.reverse(image, [1])

    return tf.cond(tf.random.uniform([]) > 0.5, mirrored, lambda: image) / 255.0


def by_its_own_most(image):
    image = made(image)
    return tf.image.random_flip_left_right(image) / tf.reduce_max(image)


MOVED = (
    flipped_then_divided, flipped_twice_then_normalized, by_keras, chosen, by_its_own_most,
)  # fmt: skip


def brightened(image):
    return tf.image.random_brightness(tf.image.random_flip_left_right(made(image)), 0.2) / 255.0


def by_channel(image):
    return tf.image.random_flip_left_right(made(image)) / tf.constant([1.0, 2.0, 3.0])


def by_a_draw(image):
    return tf.image.random_flip_left_right(made(image)) * tf.random.uniform([])


def looked_at_before(image):
    image = tf.image.random_flip_left_right(made(image))
    return image / 255.0, tf.reduce_max(image)


def both_ways(image):
    image = made(image)
    return tf.image.random_flip_left_right(image) / 255.0, image


def curved(image):
    return tf.exp(tf.image.random_flip_left_right(made(image)))


def widened(image):
    image = tf.cast(made(image), tf.uint8)
    return tf.cast(tf.image.random_flip_left_right(image), tf.float32) / 255.0


def seen_in_between(image):
    once = tf.image.random_flip_left_right(made(image))
    return tf.image.random_flip_up_down(once) / 255.0, tf.reduce_mean(once)


LEFT = (
    brightened,
    by_channel,
    by_a_draw,
    looked_at_before,
    both_ways,
    curved,
    widened,
    seen_in_between,
)


def ops(function):
    return [op.type for op in function.graph.get_operations()]


def cut_of(function):
    return split_deterministic_prefix(read_pipeline(IMAGES.map(function)).root.functions[0])


@pytest.mark.parametrize("function", MOVED)
def test_what_scales_is_done_before_the_flip(function):
    cut = cut_of(function)
    assert len(cut.scalings) == 1
    scaling = {"RealDiv", "Maximum", "Sub"} & set(ops(cut.prefix))
    assert scaling
    assert not {"RealDiv", "Maximum"} & set(ops(cut.rest))


@pytest.mark.parametrize("function", LEFT)
def test_what_does_more_stays_behind(function):
    assert cut_of(function).scalings == ()


@pytest.mark.every(2)
@pytest.mark.parametrize("function", [*MOVED, *LEFT])
@pytest.mark.parametrize("kept", [False, True])
def test_the_same_elements_bit_for_bit(function, kept):
    twin = create_seeded_copy(read_pipeline(IMAGES.map(function)), 5)
    changed = apply_edit(twin, SplitMap(stage=1, expected_digest=twin.digest))
    if kept:
        changed = apply_edit(changed, Cache(stage=1, expected_digest=changed.digest))
    assert epochs(changed.dataset) == epochs(twin.dataset)
    assert changed.element_spec == twin.element_spec


def test_a_flip_of_keras_is_cut_at_one_picture():
    """It is given as it is, and reversed; keeping both would take twice the memory."""
    cut = cut_of(by_keras)
    assert [spec.shape.num_elements() for spec in cut.specs] == [9 * 9 * 3]


def test_assignments_of_a_seed_generator_stay_in_the_rest():
    cut = cut_of(by_keras)
    assert "AssignVariableOp" in ops(cut.rest)
    assert not {"AssignVariableOp", "ReadVariableOp"} & set(ops(cut.prefix))
