from __future__ import annotations

import pytest

from optimizations.situations import (
    AT_ONCE,
    AUGMENTING,
    HERE,
    POINT,
    PREFIX,
    SITUATIONS,
    WAITING,
    proposal,
    reason,
)
from records import observed, stage
from uncork.core.base.record import replace
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import AutotuneOff, Cache, ParallelMap, Prefetch, SplitMap
from uncork.core.evidence.stage import AUTOTUNE, MapPrefix, VectorizedCost
from uncork.optimizations.input_caching.cache import CacheOptimization

CACHE = CacheOptimization()
DECODE = stage(1, "map", 0.09, name="decode", parallelism=AUTOTUNE, cache_point=POINT)
SLOW = replace(DECODE, cpu_s_per_element=0.36, wall_s_per_element=0.36)


def decoding(*stages, **changes):
    shown = stages or (stage(0, "range"), SLOW, stage(2, "batch"))
    return observed(*shown, shares=WAITING, **changes)


def test_a_deterministic_map_is_cached_whole():
    found = proposal(CACHE, decoding())
    assert found.edits == (Cache(stage=1, expected_digest="51ab", size_bytes=POINT.memory_bytes),)
    assert found.at == "train.py:21"
    assert found.predicted > 5
    assert "1 GB" in found.rationale


def test_a_drawing_map_is_split_first():
    found = proposal(CACHE, SITUATIONS["waiting for input"])
    cache = Cache(stage=2, expected_digest="", size_bytes=POINT.memory_bytes)
    assert found.edits == (SplitMap(stage=2, expected_digest="51ab"), cache)
    assert "the deterministic part of load" in found.rationale


SHORT = {"steps_per_epoch": 20, "epochs": 10}


def test_where_epochs_become_short_the_autotuner_goes_too():
    found = proposal(CACHE, decoding(workload=SHORT))
    assert found.edits == (
        Cache(stage=1, expected_digest="51ab", size_bytes=POINT.memory_bytes),
        Prefetch(expected_digest=""),
        AutotuneOff(expected_digest=""),
    )


PARSE = stage(
    1, "map", 0.09, name="parse", parallelism=1, cache_point=POINT, vectorized_cost=AT_ONCE
)


@pytest.mark.parametrize(
    ("epochs", "at_once_s", "first"),
    [
        (3, 0.001, "vectorize"),  # 0.09 once and twice nothing, or 0.01 of training three times
        (200, 0.001, ""),
        (3, 0.05, ""),  # not that much less
        (3, 0.2, ""),  # more than one by one
    ],
)
def test_the_first_epoch_counts(epochs, at_once_s, first):
    """In few epochs a map called for whole batches takes less time than one whose work is kept."""
    stacked = VectorizedCost(
        batch_size=32, cpu_s_per_element=at_once_s, wall_s_per_element=at_once_s
    )
    stages = (stage(0, "text_line"), replace(PARSE, vectorized_cost=stacked), stage(2, "batch"))
    found = proposal(CACHE, decoding(*stages, workload={"epochs": epochs}))
    assert found.prerequisite == first
    assert found.edits[0].stage == 1


BATCHES = stage(2, "batch", cache_point=POINT)


@pytest.mark.parametrize(
    ("above", "first"),
    [
        ((BATCHES,), "vectorize"),
        ((replace(BATCHES, kind="padded_batch"),), "vectorize"),
        ((stage(2, "shuffle"), stage(3, "batch")), ""),  # other batches in every epoch
        ((replace(BATCHES, cache_point=replace(POINT, memory_bytes=2 * 10**9)),), ""),
        ((replace(BATCHES, first_index=2),), ""),  # of another branch
    ],
)
def test_batches_are_kept_afterwards(above, first):
    """What takes as long in each of a few epochs is worth it only where it is kept, too."""
    stacked = VectorizedCost(batch_size=32, cpu_s_per_element=0.06, wall_s_per_element=0.06)
    slow = replace(PARSE, vectorized_cost=stacked, cpu_s_per_element=0.36, wall_s_per_element=0.36)
    stages = (stage(0, "text_line"), slow, *above)
    found = proposal(
        CACHE, decoding(*stages, workload={"epochs": 8}, memory_available_bytes=25 * 10**8)
    )
    assert found.prerequisite == first


@pytest.mark.parametrize(("epochs", "first"), [(2, "inline_map"), (200, "")])
def test_what_makes_the_epoch_short_that_fills_it_comes_first(epochs, first):
    drawing = replace(
        PARSE, vectorized_cost=None, inlined_cost=HERE, is_random=True, deterministic_prefix=PREFIX
    )
    stages = (stage(0, "text_line"), drawing, stage(2, "batch"))
    assert proposal(CACHE, decoding(*stages, workload={"epochs": epochs})).prerequisite == first


def test_maps_above_the_cache_are_no_matter_to_it():
    above = replace(PARSE, index=2, first_index=0, cache_point=None, cpu_s_per_element=0.04)
    stages = (stage(0, "text_line"), SLOW, above, stage(3, "batch"))
    assert proposal(CACHE, decoding(*stages, workload={"epochs": 3})).prerequisite == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"steps_per_epoch": 2000},
        {"steps_per_epoch": None},
        {"steps_per_epoch": 20, "has_default_rewrites": False},
    ],
)
def test_otherwise_the_autotuner_stays(changes):
    assert len(proposal(CACHE, decoding(workload=changes)).edits) == 1


def test_the_autotuner_stays_where_there_is_work_left_for_it():
    slow = stage(2, "map", 0.02, parallelism=AUTOTUNE)
    assert len(proposal(CACHE, decoding(stage(0, "range"), SLOW, slow, workload=SHORT)).edits) == 1


def test_the_smaller_of_two_that_win_the_same_is_taken():
    small = replace(SLOW, cache_point=replace(POINT, memory_bytes=1000))
    later = stage(2, "map", 0.0, parallelism=AUTOTUNE, cache_point=POINT)
    assert proposal(CACHE, decoding(small, later)).edits[0].stage == 1


def test_of_two_as_large_that_win_the_same_the_later_is_taken():
    """Batches that are kept as they are need not be put together again."""
    batches = stage(2, "batch", cache_point=replace(POINT, memory_bytes=POINT.memory_bytes + 9))
    assert proposal(CACHE, decoding(stage(0, "range"), SLOW, batches)).edits[0].stage == 2


def test_the_one_that_wins_more_is_taken_if_it_fits():
    half = replace(SLOW, cpu_s_per_element=0.18, wall_s_per_element=0.18)
    small = replace(half, cache_point=replace(POINT, memory_bytes=1000))
    late = replace(half, index=2)
    assert proposal(CACHE, decoding(small, late)).edits[0].stage == 2
    assert proposal(CACHE, decoding(small, late, memory_available_bytes=10**9)).edits[0].stage == 1


@pytest.mark.parametrize(("share", "fits"), [(0.1, False), (0.125, True), (0.9, True)])
def test_the_policy_decides_how_much_memory_there_is(share, fits):
    policy = Policy(memory_share=share)
    if fits:
        assert proposal(CACHE, decoding(), policy=policy)
    else:
        assert reason(CACHE, decoding(), policy=policy) == (
            "needs 1.0 GB of memory, the budget is 0.8 GB"
        )


BYTES = MapPrefix(op_count=9, bytes_per_element=25_000, cpu_s_per_element=0.35)
WIDENING = replace(SLOW, bytes_per_element=100_000, narrow_prefix=BYTES)


def test_what_is_too_large_is_kept_before_it_is_widened():
    stages = stage(0, "range"), WIDENING, stage(2, "batch")
    found = proposal(CACHE, decoding(*stages, memory_available_bytes=10**9))
    cache = Cache(stage=1, expected_digest="", size_bytes=POINT.memory_bytes // 4)
    assert found.edits == (SplitMap(stage=1, expected_digest="51ab"), cache)
    assert (
        "everything before the cast of decode is computed once and cached in 0.25 GB"
        in found.rationale
    )
    assert "tf.cast" in found.source_edit


def test_what_fits_is_kept_whole():
    stages = stage(0, "range"), WIDENING, stage(2, "batch")
    found = proposal(CACHE, decoding(*stages))
    assert found.edits == (Cache(stage=1, expected_digest="51ab", size_bytes=POINT.memory_bytes),)


def test_what_does_not_fit_in_any_form_is_told_by_the_smallest():
    stages = stage(0, "range"), WIDENING, stage(2, "batch")
    little = decoding(*stages, memory_available_bytes=2 * 10**8)
    assert reason(CACHE, little) == "needs 0.2 GB of memory, the budget is 0.1 GB"


def test_a_custom_loop_is_cached_too():
    assert proposal(CACHE, SITUATIONS["custom loop"])


def test_one_epoch_reads_nothing_twice():
    assert "one epoch" in reason(CACHE, decoding(workload={"epochs": 1}))


def test_without_a_legal_place_there_is_none():
    assert "no deterministic" in reason(CACHE, decoding(replace(SLOW, cache_point=None)))


def test_work_that_the_step_hides_is_left_alone():
    quick = replace(DECODE, cpu_s_per_element=1e-5, wall_s_per_element=1e-5)
    assert "predicted gain" in reason(CACHE, decoding(quick))


@pytest.mark.parametrize("situation", ["arrays", "pydataset", "generator"])
def test_without_tf_data_there_is_nothing_to_cache(situation):
    assert "not by tf.data" in reason(CACHE, SITUATIONS[situation])


def test_a_slow_random_part_is_no_reason_to_cache_a_quick_prefix():
    quick = replace(AUGMENTING[2].deterministic_prefix, cpu_s_per_element=1e-4)
    drawing = replace(AUGMENTING[2], deterministic_prefix=quick)
    assert "predicted gain" in reason(CACHE, decoding(drawing))


def test_a_loop_that_leaves_its_data_early_never_fills_a_cache():
    decode = stage(1, "map", 0.09, parallelism=AUTOTUNE, cache_point=POINT, length=-1)
    looping = {"kind": "custom_loop", "model": None, "steps_per_epoch": POINT.element_count}
    left = observed(stage(0, "range"), decode, shares=WAITING, workload=looping)
    assert "before a cache is complete" in reason(CACHE, left)
    for changes in ({"steps_per_epoch": POINT.element_count + 1}, {"steps_per_epoch": None}):
        longer = replace(left, workload=replace(left.workload, **changes))
        assert proposal(CACHE, longer)


def test_what_is_made_anew_for_each_pass_is_not_read_again():
    assert "recreates its dataset for each pass" in reason(
        CACHE, decoding(workload={"is_dataset_recreated": True})
    )


def test_the_epoch_that_fills_it_runs_a_serial_map_in_parallel():
    """One that TensorFlow leaves serial: it looks up a table, or was told one call at a time."""
    serial = replace(DECODE, parallelism=1)
    found = proposal(CACHE, decoding(stage(0, "range"), serial, stage(2, "batch")))
    parallel, cache, *_ = found.edits
    assert parallel == ParallelMap(stage=1, expected_digest="51ab")
    assert cache == Cache(stage=1, expected_digest="", size_bytes=POINT.memory_bytes)
    assert "in parallel" in found.rationale


def test_of_two_that_take_next_to_nothing_the_later_is_taken():
    small = replace(SLOW, cache_point=replace(POINT, memory_bytes=1_000))
    batches = stage(2, "batch", cache_point=replace(POINT, memory_bytes=100_000))
    assert proposal(CACHE, decoding(stage(0, "range"), small, batches)).edits[0].stage == 2
