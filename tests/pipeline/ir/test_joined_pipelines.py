"""Pipelines that are joined of several: read, measured and rewritten inside their branches."""

from __future__ import annotations

import pytest
import tensorflow as tf

from pipeline.helpers import behind_unknown, by_decree, measured
from pipeline.profile.test_stage_costs import heaviest, heavy
from pipeline.transforms.test_apply import (
    cache_at,
    filter_first_at,
    noisy,
    parallel_at,
    proved,
    shuffle_first_at,
    split_at,
    words,
)
from uncork.core.base.errors import EditRefused
from uncork.core.edits.pipeline import Cache, LessAhead, ParallelMap, VectorizeMap
from uncork.pipeline.ir.tree import read_pipeline
from uncork.pipeline.transforms.apply import apply_edit

Dataset = tf.data.Dataset
RANGE = Dataset.range


def cached_from(stage, data):
    """How many elements a cache there would hold; None where there can be none."""
    point = by_decree(data)[stage].cache_point
    return point.element_count if point else None


def listed(data):
    pipeline = data if hasattr(data, "stage_locations") else read_pipeline(data)
    return [place.node.kind for place in pipeline.stage_locations]


def vectorize_at(stage):
    return lambda digest: VectorizeMap(stage=stage, expected_digest=digest)


def serial(x):
    return words(x)


def joined(*, calls=1):
    """Numbers worked on one after the other, with labels; then shuffled and batched."""
    numbers = RANGE(12).map(serial, num_parallel_calls=calls)
    return Dataset.zip(numbers, RANGE(12)).shuffle(5, seed=1).batch(3)


def test_branches_stand_before_what_joins_them():
    assert listed(joined()) == ["range", "map", "range", "zip", "shuffle", "batch"]
    nested = Dataset.zip(joined(), RANGE(4)).enumerate()
    kinds = [*listed(joined()), "range", "zip"]
    assert listed(nested) == ["range", *kinds, "zip"]


def test_without_branches_stages_are_counted_as_ever():
    pipeline = read_pipeline(RANGE(4).map(words).batch(2))
    assert [place.node for place in pipeline.stage_locations] == list(pipeline.stages)
    assert pipeline.branches == ()


def test_an_unknown_class_hides_what_it_is_made_from():
    assert listed(behind_unknown(joined()).batch(2)) == ["opaque", "batch"]


def test_a_branch_knows_what_it_is_part_of():
    pipeline = read_pipeline(joined())
    branch, position = pipeline.stage_locations[1]
    assert (branch.root.kind, position) == ("map", 1)
    assert branch.outermost is pipeline.outermost is pipeline


@pytest.mark.parametrize(
    ("data", "edit", "expected"),
    [
        (joined, parallel_at(1), "range map range zip shuffle batch"),
        (joined, cache_at(1), "range map cache range zip shuffle batch"),
        (joined, cache_at(3), "range map range zip cache shuffle batch"),
        (
            lambda: RANGE(9).map(noisy).enumerate().batch(2),
            split_at(2),
            "range range map map zip batch",
        ),
        (
            lambda: Dataset.zip(RANGE(8).map(words).batch(2), RANGE(4)),
            vectorize_at(1),
            "range batch map range zip",
        ),
        (
            lambda: RANGE(5).concatenate(RANGE(6).map(words).map(lambda x: tf.cast(x, tf.int64))),
            cache_at(2),
            "range range map cache map concatenate",
        ),
        (
            lambda: Dataset.zip(RANGE(9).map(words).shuffle(4, seed=2), RANGE(9)),
            shuffle_first_at(2),
            "range shuffle map range zip",
        ),
        (
            lambda: Dataset.sample_from_datasets(
                [RANGE(9).map(lambda x: (x, words(x))).filter(lambda x, _: x > 3)] * 2, seed=3
            ),
            filter_first_at(5),
            None,
        ),
        (
            lambda: Dataset.zip(Dataset.zip(RANGE(4), RANGE(4).map(serial, 1)), RANGE(4)).batch(2),
            parallel_at(2),
            "range range map zip range zip batch",
        ),
    ],
)
def test_a_branch_is_rewritten_in_its_place(data, edit, expected):
    after = proved(data(), edit)
    assert expected is None or " ".join(listed(after)) == expected


def test_branches_over_one_shuffle_still_draw_one_after_the_other():
    """A copy in one of them counts the epochs together with the user's own in the other."""
    shuffled = RANGE(9).map(words).shuffle(9, seed=4)
    proved(Dataset.zip(shuffled, shuffled), shuffle_first_at(2))
    proved(Dataset.zip(shuffled, shuffled), shuffle_first_at(5))
    proved(Dataset.zip(shuffled, shuffled), cache_at(1), cache_at(5))


@pytest.mark.parametrize("again", [False, True])
def test_branches_that_must_shuffle_alike_are_not_given_shuffles_of_their_own(again):
    """Unseeded, a copy would draw another order: pictures beside the labels of others."""
    shuffled = RANGE(8).map(words).shuffle(8, reshuffle_each_iteration=again)
    batches = shuffled.batch(2), shuffled.map(lambda x: x + 1).batch(2)
    pipeline = read_pipeline(Dataset.zip(*batches))
    with pytest.raises(EditRefused, match="a shuffle that another branch reads"):
        apply_edit(pipeline, VectorizeMap(stage=1, expected_digest=pipeline.digest))
    repeated = shuffled.repeat()
    pipeline = read_pipeline(Dataset.zip(repeated.map(lambda x: x + 1), repeated))
    with pytest.raises(EditRefused, match="a shuffle that another branch reads"):
        apply_edit(pipeline, Cache(stage=4, expected_digest=pipeline.digest))


def test_what_branches_share_is_changed_for_all_of_them():
    numbers = RANGE(8).map(serial, num_parallel_calls=1)
    shuffled = numbers.shuffle(8, reshuffle_each_iteration=False)
    pipeline = read_pipeline(Dataset.zip(shuffled, shuffled.map(lambda x: x + 1)))
    after = apply_edit(pipeline, ParallelMap(stage=1, expected_digest=pipeline.digest))
    assert after.stage_locations[1].node.dataset is after.stage_locations[4].node.dataset
    assert all(int(a) + 1 == int(b) for a, b in after.dataset)


def test_a_long_buffer_in_a_branch_is_shortened_there():
    data = Dataset.zip(RANGE(9), RANGE(9).map(words).prefetch(400)).batch(2)
    after = proved(data, lambda digest: LessAhead(stage=3, expected_digest=digest))
    assert int(after.stage_locations[3].node.dataset._buffer_size) == tf.data.AUTOTUNE


def test_several_edits_find_their_stages_one_after_the_other():
    data = Dataset.zip(RANGE(8).map(noisy), RANGE(8).map(serial, num_parallel_calls=1)).batch(2)
    after = proved(data, split_at(1), cache_at(1), parallel_at(5))
    assert " ".join(listed(after)) == "range map cache map range map zip batch"
    assert after.stage_locations[5].node.parallelism == tf.data.AUTOTUNE


@pytest.mark.parametrize("stage", [-1, 6])
def test_a_stage_that_is_not_there_is_refused(stage):
    pipeline = read_pipeline(joined())
    with pytest.raises(EditRefused, match=f"no stage {stage}"):
        apply_edit(pipeline, Cache(stage=stage, expected_digest=pipeline.digest))


def test_the_options_of_the_whole_hold_in_its_branches():
    options = tf.data.Options()
    options.deterministic = False
    data = Dataset.zip(RANGE(8).map(words, num_parallel_calls=2).batch(2), RANGE(4))
    pipeline = read_pipeline(data.with_options(options))
    with pytest.raises(EditRefused):
        apply_edit(pipeline, Cache(stage=2, expected_digest=pipeline.digest))
    pipeline = read_pipeline(data)
    apply_edit(pipeline, Cache(stage=2, expected_digest=pipeline.digest))


def test_a_parallel_map_in_a_branch_is_refused_as_anywhere():
    pipeline = read_pipeline(joined(calls=2))
    with pytest.raises(EditRefused, match="parallel already"):
        apply_edit(pipeline, ParallelMap(stage=1, expected_digest=pipeline.digest))


def test_work_in_a_branch_is_blamed_on_its_own_stage():
    numbers = Dataset.zip(RANGE(64).map(heaviest, num_parallel_calls=1), RANGE(64)).batch(4)
    found = measured(numbers)
    assert [s.kind for s in found] == ["range", "map", "range", "zip", "batch"]
    assert [s.index for s in found] == [0, 1, 2, 3, 4]
    assert [s.first_index for s in found] == [0, 0, 2, 0, 0]
    assert [s.elements_per_step for s in found] == [4, 4, 4, 4, 1]
    assert max(found, key=lambda s: s.cpu_s_per_step or 0) is found[1]
    assert found[1].parallelism == 1


def test_of_what_is_concatenated_each_part_gives_its_share():
    found = by_decree(RANGE(6).concatenate(RANGE(2)).batch(4))
    assert [s.elements_per_step for s in found] == [3, 1, 4, 1]


def test_of_what_is_sampled_each_part_gives_what_is_chosen():
    parts = [RANGE(100).repeat(), RANGE(100).repeat()]
    found = by_decree(Dataset.sample_from_datasets(parts, [0.8, 0.2], seed=1).batch(10))
    often, rarely = (s.elements_per_step for s in found if s.kind == "repeat")
    assert often + rarely == pytest.approx(10)
    assert 6 < often < 9.5


def test_what_is_shared_is_proposed_once_with_memory_for_each_reader():
    numbers = RANGE(8).map(heavy)
    found = by_decree(Dataset.zip(numbers, numbers.map(lambda x: x + 1)).batch(4))
    assert [s.kind for s in found] == ["range", "map", "range", "map", "map", "zip", "batch"]
    assert found[1].cache_point.memory_bytes == 2 * 8 * (found[1].bytes_per_element + 185)
    assert found[3].cache_point is None


def test_what_gives_the_elements_of_others_costs_nothing_itself():
    found = measured(RANGE(64).map(heavy).concatenate(RANGE(64).map(heavy)).batch(4))
    assert found[4].kind == "concatenate"
    assert found[4].cpu_s_per_element == 0


def test_choices_in_long_runs_tell_no_shares():
    choices = Dataset.from_tensors(0).repeat(1000).concatenate(Dataset.from_tensors(1).repeat(1000))
    choices = choices.map(lambda x: tf.cast(x, tf.int64))
    found = by_decree(Dataset.choose_from_datasets([RANGE(1000), RANGE(1000)], choices))
    assert {s.elements_per_step for s in found if s.kind == "range"} == {None}


def test_a_cache_in_a_branch_spares_what_lies_below_it_there():
    found = by_decree(Dataset.zip(RANGE(8).map(heavy).cache(), RANGE(8).map(heavy)).batch(4))
    assert [s.elements_per_step for s in found] == [0, 0, 4, 4, 4, 4, 1]


@pytest.mark.parametrize(
    ("other", "expected"),
    [(RANGE(8), 8), (Dataset.counter(), 8), (RANGE(9), 8), (RANGE(7), None)],
)
def test_a_branch_that_is_read_to_its_end_can_be_cached(other, expected):
    assert cached_from(1, Dataset.zip(RANGE(8).map(words), other).batch(4)) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (lambda d: Dataset.zip(d, RANGE(8)).take(4), None),
        (lambda d: Dataset.zip(d, RANGE(8)).take(9), 8),
        (lambda d: d.repeat().take(7), None),
        (lambda d: d.repeat().take(8), None),
        (lambda d: d.repeat().take(20).batch(4), 8),
        (lambda d: d.batch(2).take(3), None),
        (lambda d: d.batch(2).take(4), None),
        (lambda d: d.batch(2).take(5), 8),
        (lambda d: d.batch(2).take(-1), 8),
        (lambda d: d.take_while(lambda x: True), None),
        (lambda d: Dataset.zip(d.repeat(), Dataset.counter()), 8),
        (lambda d: Dataset.zip(d.repeat(), RANGE(20)), 8),
        (lambda d: Dataset.zip(d.repeat(), RANGE(20).filter(lambda x: True)), None),
        (lambda d: d.concatenate(RANGE(3).map(words)), 8),
    ],
)
def test_what_is_left_early_cannot_be_cached(data, expected):
    assert cached_from(1, data(RANGE(8).map(words))) == expected


def test_a_cache_of_what_is_joined_spares_all_branches():
    found = by_decree(Dataset.zip(RANGE(8).map(heavy), RANGE(8).map(heavy)).batch(4))
    branch, both = found[1].cache_point, found[4].cache_point
    assert both.saved_cpu_s_per_step > branch.saved_cpu_s_per_step
    assert both.element_count == branch.element_count == 8


def test_what_a_rewrite_needs_is_counted_over_all_stages():
    filtered = RANGE(64).map(lambda x: (x, tf.ones([99]))).filter(lambda x, _: x % 2 == 0)
    shuffled = RANGE(64).map(heavy).shuffle(10)
    found = by_decree(Dataset.zip(RANGE(99), filtered, shuffled))
    assert found[3].bypassable_maps == (2,)
    assert found[6].shuffle_buffer.movable_maps == (5,)
    assert found[6].shuffle_buffer.elements_per_pass == 64
