from __future__ import annotations

import pytest
import tensorflow as tf

from pipeline.helpers import epochs
from uncork.core.edits.pipeline import SplitMap
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy, preserve_state
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

RANGE = tf.data.Dataset.range


def branch(x):
    return tf.cond(x > 2, lambda: tf.random.uniform([]), lambda: tf.random.normal([]))


def loop(x):
    return tf.map_fn(lambda y: y + tf.random.uniform([]), tf.zeros([20]) + tf.cast(x, tf.float32))


@tf.function
def nested(x):
    return tf.cast(x, tf.float32) + tf.random.uniform([])


PIPELINES = {
    "shuffle": lambda: RANGE(20).shuffle(9),
    "map": lambda: RANGE(9).map(lambda x: tf.random.uniform([2])),
    "parallel map": lambda: RANGE(30).map(
        lambda x: tf.random.uniform([2]), num_parallel_calls=4, deterministic=False
    ),
    "branch": lambda: RANGE(9).map(branch),
    "loop": lambda: RANGE(9).map(loop),
    "function": lambda: RANGE(9).map(nested),
    "filter": lambda: RANGE(40).filter(lambda x: tf.random.uniform([]) > 0.5),
    "flat_map": lambda: RANGE(9).flat_map(lambda x: RANGE(x).map(nested)),
    "shuffle in an interleave": lambda: RANGE(3).interleave(
        lambda x: RANGE(20).shuffle(9).map(nested), cycle_length=2
    ),
    "random in a flat_map": lambda: RANGE(3).flat_map(lambda x: tf.data.Dataset.random().take(2)),
    "group_by_window": lambda: RANGE(20).group_by_window(
        lambda x: x % 2, lambda key, window: window.shuffle(9).batch(5), 5
    ),
    "random": lambda: tf.data.Dataset.random().take(5),
    "random anew": lambda: tf.data.Dataset.random(rerandomize_each_iteration=True).take(5),
    "scan": lambda: RANGE(9).scan(0, lambda state, x: (state, tf.random.uniform([]))),
    "below a scan": lambda: RANGE(9).shuffle(9).scan(0, lambda state, x: (state, x)),
    "below a zip": lambda: tf.data.Dataset.zip((RANGE(9).shuffle(9), RANGE(9).map(nested))),
    "cached draws": lambda: RANGE(9).map(nested).cache(),
}


@pytest.mark.parametrize("case", PIPELINES)
def test_twins_agree_and_other_seeds_do_not(case):
    pipeline = read_pipeline(PIPELINES[case]())
    first = epochs(create_seeded_copy(pipeline, 1).dataset)
    assert epochs(create_seeded_copy(pipeline, 1).dataset) == first
    assert epochs(create_seeded_copy(pipeline, 2).dataset) != first
    assert create_seeded_copy(pipeline, 1).digest == pipeline.digest


def test_two_ops_and_two_maps_draw_different_numbers():
    data = RANGE(4).map(lambda x: (tf.random.uniform([]), tf.random.uniform([])))
    data = data.map(lambda a, b: (a, b, tf.random.uniform([])))
    for drawn in create_seeded_copy(read_pipeline(data), 1).dataset.as_numpy_iterator():
        assert len({float(d) for d in drawn}) == 3


def test_given_seeds_are_kept():
    data = RANGE(9).shuffle(9, seed=4).map(lambda x: (x, tf.random.uniform([], seed=3)))
    assert epochs(create_seeded_copy(read_pipeline(data), 1).dataset) == epochs(data)
    assert epochs(create_seeded_copy(read_pipeline(data), 1).dataset) == epochs(
        create_seeded_copy(read_pipeline(data), 2).dataset
    )


def test_a_twin_leaves_the_original_random():
    data = RANGE(50).shuffle(50)
    epochs(create_seeded_copy(read_pipeline(data), 1).dataset)
    assert epochs(data) != epochs(data)


def test_reading_a_twin_does_not_move_on_a_source_that_counts_its_passes():
    def anew():
        return tf.data.Dataset.random(seed=4, rerandomize_each_iteration=True).take(5)

    data = anew()
    for _ in range(2):
        assert epochs(create_seeded_copy(read_pipeline(data), 1).dataset) == epochs(anew())
    assert epochs(data) == epochs(anew())


def test_a_twin_starts_at_the_first_epoch_and_does_not_move_the_original():
    data = RANGE(20).shuffle(20, seed=4)
    fresh = epochs(RANGE(20).shuffle(20, seed=4))
    twin = create_seeded_copy(read_pipeline(data), 1)
    assert epochs(twin.dataset) == fresh
    assert epochs(data) == fresh


def test_the_halves_of_a_split_map_draw_what_the_whole_drew():
    def two_draws(x):
        y = tf.strings.length(tf.strings.as_string(x))
        return branch(x) + tf.random.uniform([]) + tf.cast(y, tf.float32)

    pipeline = read_pipeline(RANGE(9).map(two_draws))
    whole = create_seeded_copy(pipeline, 1)
    cut = apply_edit(
        create_seeded_copy(pipeline, 1), SplitMap(stage=1, expected_digest=pipeline.digest)
    )
    assert epochs(cut.dataset) == epochs(whole.dataset)


def test_generators_are_put_back():
    generator = tf.random.Generator.from_seed(5)
    pipeline = read_pipeline(RANGE(9).map(lambda x: generator.uniform([])))
    before = generator.state.numpy().tolist()
    with preserve_state(pipeline):
        list(pipeline.dataset)
        assert generator.state.numpy().tolist() != before
    assert generator.state.numpy().tolist() == before


def test_generators_are_put_back_after_an_error():
    counter = tf.Variable(0)
    pipeline = read_pipeline(RANGE(9).map(lambda x: counter.assign_add(1)))

    def interrupted():
        with preserve_state(pipeline):
            list(pipeline.dataset)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert int(counter) == 0


def test_keras_seed_generators_are_found():
    layer = tf.keras.layers.RandomFlip("horizontal", seed=3)
    images = tf.data.Dataset.from_tensor_slices(tf.random.stateless_uniform([8, 4, 4, 3], [1, 2]))
    data = images.map(lambda x: layer(x, training=True))
    assert epochs(data) == epochs(data)
