"""How many elements of a pipeline show what an edit could do wrong."""

from __future__ import annotations

import pytest
import tensorflow as tf

from uncork.pipeline.ir.tree import read_pipeline
from uncork.training.variant import Variant
from uncork.verify.provers.pipeline import _MANY, PipelineProver, _batches_of_caches


def batches(data: tf.data.Dataset) -> int:
    return _batches_of_caches(read_pipeline(data), 1.0)


def cached(count: int) -> tf.data.Dataset:
    return tf.data.Dataset.range(count).cache()


def test_a_cache_is_full_after_its_elements_in_batches() -> None:
    assert batches(cached(8).batch(2)) == 4


def test_a_cache_in_one_branch_is_full_after_its_share_of_the_whole() -> None:
    other = tf.data.Dataset.range(24)
    assert batches(cached(8).concatenate(other).batch(2)) == 16
    assert batches(tf.data.Dataset.zip(cached(8), other).batch(2)) == 4


def test_where_a_branch_has_no_known_share_all_is_compared() -> None:
    endless = tf.data.Dataset.range(8).repeat()
    assert batches(cached(8).concatenate(endless).batch(2)) == _MANY
    chosen = tf.data.Dataset.choose_from_datasets(
        [cached(8), tf.data.Dataset.range(8)], tf.data.Dataset.range(2).repeat(8)
    )
    assert batches(chosen) == _MANY


def augmented(*, frozen: bool = False) -> Variant:
    """Images of 2 by 4 pixels in batches of 8, flipped or not."""
    ramp = tf.range(8, dtype=tf.int64)
    data = tf.data.Dataset.range(4096).map(lambda x: tf.reshape(ramp + x, (2, 4, 1)))
    data = data.map(tf.image.random_flip_left_right)
    return Variant(read_pipeline((data.cache() if frozen else data).batch(8)))


@pytest.mark.parametrize("frozen", [False, True])
def test_a_part_of_long_passes_tells_whether_draws_are_alive(frozen: bool) -> None:
    prover, edited = PipelineProver(augmented().pipeline, batch_size=8), augmented(frozen=frozen)
    prover._pass_s = 100.0
    assert prover._parts_to_tell(1) == 16  # of 4,096 images, 256 are left
    assert edited.pipeline is not None
    assert bool(prover._frozen(edited.pipeline, seconds=20.0, parts=1)) is frozen


@pytest.mark.parametrize(("pass_s", "parts"), [(0.5, 1), (3.5, 3), (1e3, 16)])
def test_short_passes_are_read_whole(pass_s: float, parts: int) -> None:
    prover = PipelineProver(augmented().pipeline, batch_size=8)
    prover._pass_s = pass_s
    assert prover._parts_to_tell(1) == parts
