"""Calls under way at once, where the autotuner does not choose."""

from __future__ import annotations

import math

import pytest
import tensorflow as tf

from pipeline.helpers import behind_unknown, epochs
from uncork.core.edits.pipeline import AutotuneOff, DrawFirst, ParallelMap
from uncork.core.evidence.stage import AUTOTUNE
from uncork.measure.machine.probe import usable_cpus
from uncork.pipeline.analysis.concurrency import configured_prefetched_elements
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

MANY = 8 * math.ceil(usable_cpus())


def plus_one(x):
    return x + 1


def off(dataset):
    return apply_edit(
        read_pipeline(dataset), AutotuneOff(expected_digest=read_pipeline(dataset).digest)
    )


def rows(shape):
    return tf.data.Dataset.range(8).map(lambda x: tf.zeros(shape))


def test_without_the_autotuner_some_calls_are_made_ahead() -> None:
    before = tf.data.Dataset.range(40).map(plus_one, num_parallel_calls=AUTOTUNE).batch(4)
    after = off(before)
    assert after.stages[1].parallelism == MANY
    assert epochs(after.dataset, passes=2) == epochs(before, passes=2)
    assert read_pipeline(before).stages[1].parallelism == AUTOTUNE


def test_the_digest_is_that_of_any_machine() -> None:
    before = tf.data.Dataset.range(40).map(plus_one, num_parallel_calls=AUTOTUNE)
    options = tf.data.Options()
    options.autotune.enabled = False
    assert off(before).digest == read_pipeline(before.with_options(options)).digest


def test_a_map_made_parallel_later_has_as_many() -> None:
    after = off(tf.data.Dataset.range(40).map(plus_one))
    parallel = apply_edit(after, ParallelMap(stage=1, expected_digest=after.digest))
    assert parallel.stages[1].parallelism == MANY


def test_so_has_the_work_that_goes_by_draws() -> None:
    images = tf.data.Dataset.from_tensor_slices(tf.zeros([6, 8, 8, 3]))
    after = off(images.map(tf.image.random_flip_left_right))
    drawn = apply_edit(after, DrawFirst(stage=1, expected_digest=after.digest))
    assert [node.parallelism for node in drawn.stages if node.kind == "map"] == [1, MANY]


def test_with_the_autotuner_the_number_stays_open() -> None:
    before = read_pipeline(tf.data.Dataset.range(40).map(plus_one))
    parallel = apply_edit(before, ParallelMap(stage=1, expected_digest=before.digest))
    assert parallel.stages[1].parallelism == AUTOTUNE


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.cast(x, tf.float32) + tf.random.uniform([]),
        lambda x: tf.numpy_function(abs, [x], tf.int64),
        lambda x: tf.zeros([x, 3]),  # of any size
    ],
)
def test_what_may_do_more_than_it_gives_is_left_alone(function) -> None:
    before = tf.data.Dataset.range(8).map(function, num_parallel_calls=AUTOTUNE)
    assert off(before).stages[1].parallelism == AUTOTUNE


def test_elements_of_unknown_size_are_not_piled_up(jpegs) -> None:
    """Nobody knows how much is read of a name, and TensorFlow says that a string takes none."""
    before = tf.data.Dataset.from_tensor_slices(jpegs)
    before = before.map(tf.io.read_file, num_parallel_calls=AUTOTUNE)
    assert off(before).stages[1].parallelism == AUTOTUNE
    sizes = before.map(tf.strings.length, num_parallel_calls=AUTOTUNE)
    assert off(sizes).stages[2].parallelism == AUTOTUNE


def test_what_reads_a_variable_reads_it_when_it_did() -> None:
    factor = tf.Variable(2, dtype=tf.int64)
    before = tf.data.Dataset.range(8).map(lambda x: x * factor, num_parallel_calls=AUTOTUNE)
    assert off(before).stages[1].parallelism == AUTOTUNE


def test_below_a_class_that_cannot_be_made_anew_all_stays_as_it_is() -> None:
    before = tf.data.Dataset.range(8).map(plus_one, num_parallel_calls=AUTOTUNE)
    after = off(behind_unknown(before))
    assert epochs(after.dataset) == epochs(before)


@pytest.mark.parametrize("keep", [tf.data.Dataset.cache, lambda d: d.shuffle(4)])
def test_caches_and_shuffles_stay_the_same_objects(keep) -> None:
    """A copy would be filled beside the user's, or count epochs of its own."""
    kept = keep(tf.data.Dataset.range(8).map(plus_one, num_parallel_calls=AUTOTUNE))
    after = off(kept.map(plus_one, num_parallel_calls=AUTOTUNE))
    assert [n.parallelism for n in after.stages if n.kind == "map"] == [AUTOTUNE, MANY]
    assert after.stages[2].dataset is kept


def test_the_number_is_not_told_to_the_user_as_his_own() -> None:
    after = off(tf.data.Dataset.range(40).map(plus_one, num_parallel_calls=AUTOTUNE))
    assert configured_prefetched_elements(after.stages[1]) is None
    own = tf.data.Dataset.range(40).map(plus_one, num_parallel_calls=400)
    assert configured_prefetched_elements(off(own).stages[1]) == 400


def test_a_number_of_the_users_own_is_kept() -> None:
    before = tf.data.Dataset.range(8).map(plus_one, num_parallel_calls=3)
    assert off(before).stages[1].parallelism == 3


@pytest.mark.parametrize(
    ("megabytes", "calls"),
    [(1, min(MANY, 64)), (20, max(3, math.ceil(usable_cpus()))), (600, usable_cpus())],
)
def test_large_elements_are_not_piled_up(megabytes, calls) -> None:
    def large(x):
        return tf.zeros([megabytes, 1_000_000], tf.uint8)

    before = tf.data.Dataset.range(1).map(large, num_parallel_calls=AUTOTUNE)
    assert off(before).stages[1].parallelism == math.ceil(calls)
