from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import tensorflow as tf

from pipeline.conftest import load_and_flip
from pipeline.helpers import behind_unknown, epochs, kinds
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import (
    Cache,
    DropUnused,
    FilterFirst,
    GeneratorChunks,
    LessAhead,
    ParallelMap,
    PipelineEdit,
    Prefetch,
    ShuffleFirst,
    SplitMap,
    StageEdit,
    VectorizeMap,
)
from uncork.pipeline.equivalence.seeded_twin import create_seeded_copy
from uncork.pipeline.ir.builders import memory_cache
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import STAGE_HANDLERS, apply_edit

RANGE = tf.data.Dataset.range


def words(x):
    return tf.strings.length(tf.strings.as_string(x * x))


def noisy(x):
    return words(x) + tf.random.uniform([], 0, 1000, tf.int32)


def python(x):
    return tf.numpy_function(lambda v: v + 1, [x], tf.int64)


def edited(pipeline, *edits):
    """Apply edits given as functions of the digest."""
    for edit in edits:
        pipeline = apply_edit(pipeline, edit(pipeline.digest))
    return pipeline


def proved(data, *edits):
    """Seeded twins of the original and the rewritten pipeline are equal in two epochs."""
    before = epochs(create_seeded_copy(read_pipeline(data), 5).dataset)
    after = edited(create_seeded_copy(read_pipeline(data), 5), *edits)
    assert epochs(after.dataset) == before
    assert int(after.dataset.cardinality()) == int(data.cardinality())
    assert after.element_spec == data.element_spec
    return after


def whole(dataset):
    """Three complete passes: what one that is left early draws next is left to timing."""
    found = epochs(dataset, limit=100, passes=3)
    assert all(each.is_complete for each in found)
    return found


def split_at(stage):
    return lambda digest: SplitMap(stage=stage, expected_digest=digest)


def cache_at(stage):
    return lambda digest: Cache(stage=stage, expected_digest=digest)


def parallel_at(stage):
    return lambda digest: ParallelMap(stage=stage, expected_digest=digest)


def shuffle_first_at(stage):
    return lambda digest: ShuffleFirst(stage=stage, expected_digest=digest)


def filter_first_at(stage):
    return lambda digest: FilterFirst(stage=stage, expected_digest=digest)


def prefetch(digest):
    return Prefetch(expected_digest=digest)


def test_each_edit_of_a_stage_has_a_handler():
    of_stages = {kind for kind in get_args(PipelineEdit) if issubclass(kind, StageEdit)}
    of_more = {GeneratorChunks, ShuffleFirst, VectorizeMap}
    assert set(STAGE_HANDLERS) == of_stages - of_more
    assert set(StageEdit.__subclasses__()) == of_stages


def test_a_photo_pipeline_split_cached_and_prefetched_is_equal(photos):
    after = proved(photos, split_at(2), cache_at(2), prefetch)
    assert kinds(after) == [
        "from_tensor_slices", "map", "cache", "shuffle", "map", "batch", "prefetch",
    ]  # fmt: skip
    prefix, rest = after.stages[1], after.stages[4]
    assert prefix.parallelism == tf.data.AUTOTUNE
    assert prefix.dataset._deterministic == "true"
    assert rest.parallelism == 1
    assert prefix.at == rest.at == read_pipeline(photos).stages[2].at
    assert prefix.name == "load_and_flip"


def test_flips_stay_alive_after_caching(photos):
    after = edited(read_pipeline(photos), split_at(2), cache_at(2))
    first, second = epochs(after.dataset)
    assert first.digests != second.digests


@pytest.mark.parametrize(("size", "times"), [(3, 2), (3, 0), (0, 0)])
def test_a_map_that_kept_a_shuffle_from_a_repeat_is_not_missed(size, times):
    """Fused, the two draw the next pass otherwise; with no repetition at all that is an error."""
    data = RANGE(size).shuffle(3).map(lambda x: x + 1).repeat(times)
    digest = read_pipeline(data).digest
    kept = apply_edit(
        create_seeded_copy(read_pipeline(data), 9), Cache(stage=2, expected_digest=digest)
    )
    assert kinds(kept) == ["range", "map", "cache", "shuffle", "options", "repeat"]
    assert epochs(kept.dataset) == epochs(create_seeded_copy(read_pipeline(data), 9).dataset)


def test_a_shuffle_that_is_fused_with_a_repeat_stays_so():
    """In a second iteration the fused one draws otherwise than the two apart."""

    def made():
        data = RANGE(5).shuffle(1, seed=1).map(words).shuffle(4, seed=3).repeat(2)
        return create_seeded_copy(read_pipeline(data), 9)

    kept = apply_edit(made(), Cache(stage=3, expected_digest=made().digest))
    assert kinds(kept) == ["range", "map", "cache", "shuffle", "shuffle", "repeat"]
    assert epochs(kept.dataset, passes=3) == epochs(made().dataset, passes=3)


def test_a_cache_goes_below_shuffle_and_repeat():
    data = RANGE(20).shuffle(7, seed=3).map(words).repeat(2).map(lambda x: x + 1).batch(3)
    after = proved(data, cache_at(4))
    assert kinds(after) == ["range", "map", "map", "cache", "shuffle", "options", "repeat", "batch"]


def test_a_cache_without_shuffle_goes_right_there():
    assert kinds(proved(RANGE(9).map(words).batch(2), cache_at(2)))[-1] == "cache"


def test_a_cache_in_files_gets_one_in_memory_above_it(tmp_path):
    data = RANGE(20).map(words).cache(str(tmp_path / "kept")).shuffle(7, seed=3).batch(2)
    after = edited(read_pipeline(data), cache_at(2))
    assert kinds(after) == ["range", "map", "cache", "cache", "shuffle", "batch"]
    assert [after.stages[i].is_memory_cache for i in (2, 3)] == [False, True]
    assert [e.digests for e in epochs(after.dataset)] == [
        e.digests for e in epochs(RANGE(20).map(words).shuffle(7, seed=3).batch(2))
    ]
    assert list(tmp_path.glob("kept*.index"))


def test_a_fixed_order_is_as_good_as_none():
    data = RANGE(20).shuffle(7, seed=3, reshuffle_each_iteration=False).map(words).batch(2)
    assert kinds(proved(data, cache_at(2))) == ["range", "shuffle", "map", "cache", "batch"]


def test_a_cache_is_filled_once_and_shared_by_all_iterators():
    calls = []

    def load(x):
        calls.append(int(x))
        return x

    counted = RANGE(5).map(lambda x: tf.py_function(load, [x], tf.int64))
    cached = memory_cache(counted)
    assert all(list(cached.as_numpy_iterator()) == list(range(5)) for _ in range(3))
    assert len(calls) == 5


def test_few_calls_at_once_stay_so():
    """A plan from a machine with fewer cores; or a twin, whose draws are made in turn."""
    after = proved(RANGE(9).map(noisy, num_parallel_calls=1).batch(2), less_ahead_at(1))
    assert after.stages[1].parallelism == 1
    proved(RANGE(9).map(noisy, num_parallel_calls=256).batch(2), less_ahead_at(1))


def test_a_generator_stays_as_it_is():
    spec = tf.TensorSpec([], tf.int64)
    numbers = tf.data.Dataset.from_generator(lambda: iter(range(9)), output_signature=spec)
    after = proved(numbers.map(words, num_parallel_calls=1).batch(2), parallel_at(1))
    assert after.stages[0].dataset is numbers
    zipped = tf.data.Dataset.zip(numbers, RANGE(9).map(words, num_parallel_calls=1))
    proved(zipped, parallel_at(2))


def less_ahead_at(stage):
    return lambda digest: LessAhead(stage=stage, expected_digest=digest)


def test_a_long_buffer_is_left_to_tensorflow():
    after = proved(RANGE(9).map(words).prefetch(400).batch(2), less_ahead_at(2))
    assert int(after.stages[2].dataset._buffer_size) == tf.data.AUTOTUNE


def test_as_many_calls_at_once_as_there_are_cores():
    after = proved(RANGE(9).map(words, num_parallel_calls=256).batch(2), less_ahead_at(1))
    assert 1 <= after.stages[1].parallelism < 256


@pytest.mark.parametrize(
    "data",
    [
        lambda: RANGE(9).map(words),
        lambda: RANGE(9).map(words, num_parallel_calls=tf.data.AUTOTUNE),
        lambda: RANGE(9).prefetch(tf.data.AUTOTUNE),
        lambda: RANGE(9).prefetch(1),
        lambda: RANGE(9).batch(3, num_parallel_calls=9),
    ],
)
def test_what_prepares_little_is_left_as_it_is(data):
    with pytest.raises(EditRefused, match="no fixed number"):
        edited(read_pipeline(data()), less_ahead_at(1))


def test_a_parallel_map_keeps_the_order():
    after = proved(RANGE(50).map(words).batch(5), parallel_at(1))
    assert after.stages[1].parallelism == tf.data.AUTOTUNE


def test_a_map_told_to_make_one_call_at_a_time_may_be_told_otherwise():
    after = proved(RANGE(9).map(words, num_parallel_calls=1), parallel_at(1))
    assert after.stages[1].parallelism == tf.data.AUTOTUNE


def test_random_maps_in_parallel_draw_the_same_numbers_once_made_serial():
    original = read_pipeline(RANGE(40).map(noisy).batch(4))
    changed = edited(create_seeded_copy(original, 5), parallel_at(1))
    assert changed.stages[1].parallelism == tf.data.AUTOTUNE
    assert epochs(create_seeded_copy(changed, 5).dataset) == epochs(
        create_seeded_copy(original, 5).dataset
    )


def test_table_lookups_may_run_in_parallel():
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.range(9, dtype=tf.int64), tf.range(9) * 3), -1
    )
    proved(RANGE(12).map(table.lookup), parallel_at(1))


def test_a_generator_draws_in_the_same_order_after_the_split():
    generator = tf.random.Generator.from_seed(5)
    data = RANGE(12).map(lambda x: tf.cast(words(x), tf.float32) + generator.uniform([]))
    proved(data, split_at(1), cache_at(1))


def test_python_after_the_cut_is_called_as_before():
    seen = []

    def note(v):
        seen.append(int(v))
        return v

    data = RANGE(6).map(lambda x: tf.numpy_function(note, [words(x)], tf.int32))
    proved(data, split_at(1))
    assert len(seen) == 24


def test_parallel_random_maps_stay_parallel():
    data = RANGE(9).map(noisy, num_parallel_calls=3, deterministic=False)
    after = edited(read_pipeline(data), split_at(1))
    assert [node.parallelism for node in after.stages] == [None, -1, 3]
    assert after.root.dataset._deterministic == "false"


def test_dictionaries_ragged_and_sparse_elements_pass_through():
    def function(x):
        return {
            "n": noisy(x),
            "r": tf.RaggedTensor.from_row_lengths(tf.range(3), [1, 2]),
            "s": tf.sparse.from_dense([[x, 0]]),
            "t": (words(x), tf.strings.as_string(x)),
        }

    proved(RANGE(8).map(function).batch(3), split_at(1), cache_at(1))


def test_ragged_input_of_a_split_map():
    data = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], []]))

    def function(x, y):
        return x, words(y) + tf.random.uniform([], 0, 99, tf.int32)

    zipped = tf.data.Dataset.zip((data.batch(2).unbatch(), RANGE(3)))
    proved(zipped.map(function), split_at(7), cache_at(7))


def test_an_unknown_length_stays_unknown():
    data = RANGE(9).filter(lambda x: x > 2).map(noisy)
    after = proved(data, split_at(2), cache_at(2))
    assert int(after.dataset.cardinality()) == tf.data.UNKNOWN_CARDINALITY


def test_an_empty_dataset_stays_empty():
    proved(RANGE(0).map(noisy).batch(2), split_at(1), cache_at(1), prefetch)


def test_options_survive():
    options = tf.data.Options()
    options.threading.private_threadpool_size = 3
    after = proved(RANGE(9).map(noisy).with_options(options).batch(2), split_at(1), cache_at(1))
    assert after.dataset.options().threading.private_threadpool_size == 3


def test_a_corrupt_file_fails_at_the_same_element(jpegs):
    Path(jpegs[5]).write_bytes(b"no jpeg")
    data = tf.data.Dataset.from_tensor_slices((jpegs, list(range(12)))).map(load_and_flip)
    after = proved(data, split_at(1), cache_at(1))
    failed = epochs(after.dataset)[0].error
    assert failed.index == 5
    assert failed.type == "InvalidArgumentError"


def test_keras_pipelines_can_be_cached(tmp_path, jpegs):
    data = tf.keras.utils.image_dataset_from_directory(
        tmp_path, labels=list(range(12)), image_size=(16, 16), batch_size=4, verbose=False, seed=1
    )
    stage = kinds(read_pipeline(data)).index("map")
    assert "cache" in kinds(proved(data, cache_at(stage)))


def test_the_original_can_still_be_used(photos):
    pipeline = read_pipeline(photos)
    edited(pipeline, split_at(2), cache_at(2))
    assert kinds(pipeline) == ["from_tensor_slices", "shuffle", "map", "batch"]
    assert epochs(pipeline.dataset)[0].is_complete


def test_a_seed_is_not_drawn_by_an_edit():
    tf.random.set_seed(3)
    pipeline = read_pipeline(RANGE(9).shuffle(4).map(noisy))
    edited(pipeline, split_at(2), cache_at(2), prefetch)
    seen = float(tf.random.uniform([]))
    tf.random.set_seed(3)
    RANGE(9).shuffle(4).map(noisy)
    assert float(tf.random.uniform([])) == seen


REFUSED = {
    "other pipeline": (
        lambda: RANGE(9).map(words),
        lambda d: Cache(stage=1, expected_digest="0" * 16),
    ),
    "no such stage": (lambda: RANGE(9).map(words), cache_at(7)),
    "not a map": (lambda: RANGE(9).batch(2), split_at(1)),
    "nothing random": (lambda: RANGE(9).map(words), split_at(1)),
    "random below": (lambda: RANGE(9).map(noisy), cache_at(1)),
    "random further below": (lambda: RANGE(9).map(noisy).map(words).batch(2), cache_at(3)),
    "batches of a shuffle": (lambda: RANGE(9).shuffle(3).batch(2).map(lambda x: x), cache_at(3)),
    "infinite": (lambda: tf.data.Dataset.counter().map(words), cache_at(3)),
    "generator": (
        lambda: tf.data.Dataset.from_generator(
            lambda: iter([1]), output_signature=tf.TensorSpec([], tf.int64)
        ).map(words),
        cache_at(1),
    ),
    "unknown class": (
        lambda: behind_unknown(RANGE(4)).map(lambda x: x),
        cache_at(1),
    ),
    "python": (lambda: RANGE(9).map(lambda x: tf.py_function(abs, [x], tf.int64)), cache_at(1)),
    "unordered below a choice": (
        lambda: RANGE(9).map(words, num_parallel_calls=2, deterministic=False).take(5), cache_at(2),
    ),
    "cached already": (lambda: RANGE(9).map(words).cache(), cache_at(2)),
    "Python in parallel": (lambda: RANGE(9).map(python), parallel_at(1)),
    "parallel already": (lambda: RANGE(9).map(words, num_parallel_calls=2), parallel_at(1)),
    "prefetched already": (lambda: RANGE(9).prefetch(1), prefetch),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    make, edit = REFUSED[case]
    pipeline = read_pipeline(make())
    with pytest.raises(EditRefused) as refused:
        apply_edit(pipeline, edit(pipeline.digest))
    assert refused.value.expected
    assert refused.value.remedy


@pytest.mark.parametrize("calls", [None, 2])
def test_which_elements_are_taken_first_is_not_frozen(calls):
    options = tf.data.Options()
    options.deterministic = False
    data = RANGE(9).map(words, num_parallel_calls=calls).batch(2).with_options(options)
    pipeline = read_pipeline(data)
    with pytest.raises(EditRefused, match="map"):
        apply_edit(pipeline, Cache(stage=2, expected_digest=pipeline.digest))
    apply_edit(pipeline, Cache(stage=1, expected_digest=pipeline.digest))


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("size", [4, 20])
def test_a_shuffle_changes_places_with_the_maps_below(seed, again, size):
    data = RANGE(13).map(words).map(lambda x: x * 2, num_parallel_calls=2)
    data = data.shuffle(size, seed, reshuffle_each_iteration=again).batch(4)
    after = proved(data, shuffle_first_at(3))
    assert kinds(after) == ["range", "shuffle", "map", "map", "batch"]
    assert [node.at for node in after.stages[2:4]] == [
        node.at for node in read_pipeline(data).stages[1:3]
    ]


def test_the_repeat_above_a_shuffle_comes_along():
    data = RANGE(7).map(words).shuffle(7, seed=3).repeat(3).batch(4)
    after = proved(data, shuffle_first_at(2))
    assert kinds(after) == ["range", "shuffle", "repeat", "map", "batch"]


def test_a_shuffle_stays_above_what_draws():
    after = proved(RANGE(9).map(noisy).map(words_of).shuffle(9), shuffle_first_at(3))
    assert kinds(after) == ["range", "map", "shuffle", "map"]


def words_of(x):
    return words(x) + 1


STRENGTH = tf.Variable(1, dtype=tf.int64)


def by_strength(x):
    """A callback may raise it between two batches."""
    return x * STRENGTH


@pytest.mark.parametrize(
    ("data", "stage"),
    [
        (lambda: RANGE(9).map(noisy).shuffle(9), 2),
        (lambda: RANGE(9).map(python).shuffle(9), 2),
        (lambda: RANGE(9).map(by_strength).shuffle(9), 2),
        (lambda: RANGE(9).map(words).cache().shuffle(9), 3),
        (lambda: RANGE(9).shuffle(9), 1),
        (lambda: RANGE(9).map(words).batch(2), 1),
    ],
)
def test_a_shuffle_without_such_maps_is_refused(data, stage):
    with pytest.raises(EditRefused):
        edited(read_pipeline(data()), shuffle_first_at(stage))


def labelled(x):
    return {"text": tf.strings.as_string(x * x), "label": x}


def is_odd(element):
    return element["label"] % 2 == 1


@pytest.mark.parametrize("calls", [None, 2])
def test_a_filter_goes_below_the_map_that_passes_its_label_on(calls):
    data = RANGE(20).map(labelled, num_parallel_calls=calls).filter(is_odd).shuffle(4).batch(3)
    after = proved(data, filter_first_at(2))
    assert kinds(after) == ["range", "filter", "map", "shuffle", "batch"]
    assert after.stages[1].at == read_pipeline(data).stages[2].at


def test_a_filter_goes_as_far_down_as_nothing_works_for_it():
    data = RANGE(20).map(words).map(lambda x: (x, words(x))).map(lambda x, y: (y, x * 2))
    after = proved(data.filter(lambda y, x: x > 2).batch(2), filter_first_at(4))
    assert kinds(after) == ["range", "map", "filter", "map", "map", "batch"]


@pytest.mark.parametrize(
    "data",
    [
        lambda: RANGE(9).map(by_strength).filter(lambda x: x > 2),
        lambda: RANGE(9).map(lambda x: (x, words(x))).filter(lambda x, y: x < STRENGTH),
    ],
    ids=["mapped", "asked"],
)
def test_a_filter_stays_where_a_variable_decides(data):
    pipeline = read_pipeline(data())
    with pytest.raises(EditRefused, match="must stay"):
        apply_edit(pipeline, FilterFirst(stage=2, expected_digest=pipeline.digest))


@pytest.mark.parametrize("calls", [None, 2])
@pytest.mark.parametrize(
    ("drop", "kind"),
    [
        (lambda d: d.shard(3, 1), "shard"),
        (lambda d: d.skip(5), "skip"),
        (lambda d: d.skip(99), "skip"),
    ],
)
def test_what_goes_by_numbers_goes_below_all_maps(drop, kind, calls):
    data = drop(RANGE(20).shuffle(20, seed=1).map(words, calls).map(lambda x: (x, x), calls))
    after = proved(data.batch(3), filter_first_at(4))
    assert kinds(after) == ["range", "shuffle", kind, "map", "map", "batch"]


def test_it_stops_at_a_map_that_draws():
    after = proved(RANGE(20).map(noisy).map(words).shard(2, 1), filter_first_at(3))
    assert kinds(after) == ["range", "map", "shard", "map"]


def test_a_filter_may_look_at_everything_or_nothing():
    data = RANGE(9).map(lambda x: (x, x * 2))
    assert kinds(proved(data.filter(lambda x, y: x + y > 8), filter_first_at(2)))[1] == "filter"
    assert (
        kinds(proved(data.filter(lambda x, y: tf.constant(True)), filter_first_at(2)))[1]
        == "filter"
    )


def checked(x):
    tf.debugging.assert_less(x, np.int64(100))
    return x, x


@pytest.mark.parametrize(
    ("data", "stage"),
    [
        (lambda: RANGE(9).map(words).filter(lambda x: x > 1), 2),
        (lambda: RANGE(9).map(lambda x: (x, noisy(x))).filter(lambda x, y: x > 1), 2),
        (lambda: RANGE(9).map(lambda x: (x, python(x))).filter(lambda x, y: x > 1), 2),
        (lambda: RANGE(9).map(checked).filter(lambda x, y: x > 1), 2),
        (lambda: RANGE(9).map(labelled).filter(lambda e: tf.random.uniform([]) > 0.5), 2),
        (lambda: RANGE(9).map(labelled).cache().filter(is_odd), 3),
        (lambda: RANGE(9).filter(lambda x: x > 1), 1),
        (lambda: RANGE(9).map(labelled), 1),
        (lambda: RANGE(9).map(noisy).shard(2, 0), 2),
        (lambda: RANGE(9).map(python).shard(2, 0), 2),
        (lambda: RANGE(9).map(by_strength).skip(2), 2),
        (lambda: RANGE(9).map(checked).skip(2), 2),
        (lambda: RANGE(9).map(labelled).batch(2).skip(1), 3),
        (lambda: RANGE(9).map(labelled).take(3), 2),
    ],
)
def test_a_filter_that_must_stay_is_refused(data, stage):
    with pytest.raises(EditRefused):
        edited(read_pipeline(data()), filter_first_at(stage))


def lengthened(x):
    """Of a shape that no element's spec tells."""
    return tf.repeat(x, tf.where(x < 6, 1, 2))


def vectorize_at(stage):
    return lambda digest: VectorizeMap(stage=stage, expected_digest=digest)


@pytest.mark.parametrize(
    ("data", "edit"),
    [
        (lambda: RANGE(7).map(lambda x: x + 1).batch(3).batch(4, True), vectorize_at(1)),
        (lambda: RANGE(8).map(lengthened).shuffle(1, seed=1).batch(9, True), shuffle_first_at(2)),
        (
            lambda: (
                RANGE(8).map(lambda x: (x, lengthened(x))).filter(lambda x, _: x > 1).batch(9, True)
            ),
            filter_first_at(2),
        ),
    ],
    ids=["vectorized", "shuffled first", "filtered first"],
)
def test_a_remainder_of_unequal_shapes_is_dropped_as_before(data, edit):
    """TensorFlow fuses a map with the batch above it, and that one minds what it drops."""
    assert kinds(proved(data(), edit))[-3:] == ["map", "options", "batch"]


def test_elements_of_one_shape_may_be_batched_where_they_are_made():
    data = RANGE(7).map(lambda x: x + 1).shuffle(1, seed=1).batch(3, True)
    assert kinds(proved(data, shuffle_first_at(2))) == ["range", "shuffle", "map", "batch"]


def test_a_shuffle_takes_all_repeats_above_it_along():
    """TensorFlow leaves a single time out, and fuses the shuffle with the repeat above that."""
    data = RANGE(9).map(lambda x: x * 2 + 1).shuffle(4, seed=3).repeat(1).repeat(2)
    assert kinds(proved(data, shuffle_first_at(2))) == [
        "range",
        "shuffle",
        "repeat",
        "repeat",
        "map",
    ]


def identity(x):
    return x


NOTHING = {
    "take all": lambda d: d.take(-1),
    "skip none": lambda d: d.skip(0),
    "shard of one": lambda d: d.shard(1, 0),
    "prefetch none": lambda d: d.prefetch(0),
    "identity": lambda d: d.map(identity),
    "once": lambda d: d.repeat(1),
}


@pytest.mark.every(4)
@pytest.mark.parametrize("nothing", NOTHING)
@pytest.mark.parametrize("edit", [shuffle_first_at(2), cache_at(4), cache_at(3)])
def test_what_does_nothing_keeps_no_shuffle_from_its_repeat(nothing, edit):
    """TensorFlow leaves it out and fuses the two, which then draw later epochs otherwise."""

    def made():
        mapped = RANGE(30).map(lambda x: x * 2 % 7 + x)
        return NOTHING[nothing](mapped.shuffle(8, seed=3)).repeat(2)

    assert whole(edited(read_pipeline(made()), edit).dataset) == whole(made())


@pytest.mark.every(2)
@pytest.mark.parametrize("nothing", NOTHING)
def test_a_map_that_leaves_only_what_does_nothing_is_missed(nothing):
    """It stood between a shuffle and its repeat; what it leaves there keeps nothing apart."""

    def made():
        shuffled = RANGE(30).shuffle(8, seed=3).map(lambda x: x + 1)
        return create_seeded_copy(read_pipeline(NOTHING[nothing](shuffled).repeat(2)), 9)

    for stage in (2, 3):
        kept = apply_edit(made(), Cache(stage=stage, expected_digest=made().digest))
        assert whole(kept.dataset) == whole(made().dataset)


def test_a_map_that_does_nothing_any_more_is_missed():
    """Of its work, nobody takes anything: TensorFlow would leave out what is left of it."""

    def made():
        both = RANGE(30).shuffle(8, seed=3).map(lambda x: (x, tf.exp(tf.cast(x, tf.float32))))
        return both.repeat(2).map(lambda x, power: x)

    pipeline = read_pipeline(made())
    after = apply_edit(pipeline, DropUnused(stage=4, expected_digest=pipeline.digest))
    assert whole(after.dataset) == whole(made())


def test_an_edit_that_would_part_a_shuffle_from_its_repeat_is_refused(monkeypatch):
    """Whatever an edit does: what the two draw together is looked at when it is done."""
    pipeline = read_pipeline(RANGE(9).map(words).shuffle(4, seed=3).repeat(2))
    monkeypatch.setattr("uncork.pipeline.transforms.apply.find_fused_repeat", lambda *_: None)
    with pytest.raises(EditRefused, match="another order"):
        edited(pipeline, shuffle_first_at(2))


def called(*parts):
    return tf.function(lambda *given: given)(*parts)


def drawn_in_vain(*parts):
    tf.random.uniform([])
    return parts


@pytest.mark.parametrize("function", [called, drawn_in_vain])
def test_what_only_seems_to_do_nothing_keeps_a_shuffle_from_its_repeat(function):
    """TensorFlow looks into no function that is called, and counts draws that nobody takes."""

    def made():
        both = RANGE(9).map(lambda x: (x, tf.exp(tf.cast(x, tf.float32))))
        apart = both.shuffle(9, seed=3).map(function).repeat(3)
        return apart.map(lambda x, power: x)

    pipeline = read_pipeline(made())
    after = apply_edit(pipeline, DropUnused(stage=5, expected_digest=pipeline.digest))
    assert whole(after.dataset) == whole(made())


@pytest.mark.parametrize("switch", ["noop_elimination", "apply_default_optimizations"])
def test_where_nothing_is_left_out_such_stages_are_left_alone(switch):
    options = tf.data.Options()
    setattr(options.experimental_optimization, switch, False)
    data = RANGE(9).shuffle(9, seed=3).map(identity).repeat(3).batch(2).with_options(options)
    with pytest.raises(EditRefused, match="does nothing"):
        edited(read_pipeline(data), cache_at(1))


def test_a_map_is_kept_from_the_batch_of_every_branch_that_reads_it():
    def rows(x):
        return tf.zeros([tf.where(x >= 4, x, 2)]), x

    def made():
        kept = RANGE(6).map(rows).filter(lambda row, x: x != 1)
        return tf.data.Dataset.zip(kept.padded_batch(4), kept.batch(3, drop_remainder=True))

    after = edited(read_pipeline(made()), filter_first_at(2))
    assert epochs(after.dataset) == epochs(made())


def test_windows_of_a_series_are_kept_below_the_shuffle():
    data = RANGE(40).window(5, 1, drop_remainder=True).flat_map(lambda w: w.batch(5))
    after = proved(data.shuffle(9, seed=1).map(words).batch(4), cache_at(2))
    assert kinds(after) == ["range", "window", "flat_map", "cache", "shuffle", "map", "batch"]
    pipeline = read_pipeline(data)
    with pytest.raises(EditRefused, match="yields datasets"):
        apply_edit(pipeline, Cache(stage=1, expected_digest=pipeline.digest))


def test_a_filter_by_a_table_goes_below_the_work():
    kinds_of_labels = tf.lookup.KeyValueTensorInitializer(
        tf.constant([1, 3], tf.int64), tf.constant([1, 1], tf.int64)
    )
    wanted = tf.lookup.StaticHashTable(kinds_of_labels, default_value=0)
    data = RANGE(9).map(lambda x: (words(x), x)).filter(lambda _, label: wanted.lookup(label) > 0)
    after = proved(data.batch(2), filter_first_at(2))
    assert kinds(after) == ["range", "filter", "map", "batch"]
