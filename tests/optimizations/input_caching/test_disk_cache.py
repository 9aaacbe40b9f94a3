from __future__ import annotations

import pytest

from optimizations.situations import (
    DISK,
    FAST,
    FOUR_CORES,
    MANY,
    SITUATIONS,
    WAITING,
    ask,
    proposal,
    reason,
)
from records import observed, stage
from uncork.core.base.record import replace
from uncork.core.documents.plan import Policy
from uncork.core.edits.pipeline import DiskCache, ParallelMap, SplitMap
from uncork.core.evidence.stage import AUTOTUNE, MapPrefix
from uncork.optimizations.input_caching.cache import CacheOptimization
from uncork.optimizations.input_caching.disk_cache import DiskCacheOptimization

FILES = DiskCacheOptimization()
DECODE = stage(1, "map", 0.36, name="decode", parallelism=AUTOTUNE, cache_point=MANY)
KEPT = DiskCache(stage=1, expected_digest="51ab", size_bytes=MANY.memory_bytes, folder="/scratch")


def decoding(*stages, disk=DISK, memory=10**9, **changes):
    """Elements of 10 MB, twice as many as the memory budget has room for."""
    shown = stages or (stage(0, "range"), DECODE, stage(2, "batch"))
    return observed(
        *shown, shares=WAITING, memory_available_bytes=memory, cache_folder=disk, **changes
    )


def slower(times: float):
    read = replace(FAST, wall_s_per_byte=times * FAST.wall_s_per_byte)
    return replace(DISK, read_cost=read)


def test_what_memory_has_no_room_for_is_kept_in_files():
    assert "GB of memory" in reason(CacheOptimization(), decoding())
    found = proposal(FILES, decoding())
    assert found.edits == (KEPT,)
    assert found.rationale == "map is computed once and cached in 1 GB of files"
    assert found.at == "train.py:21"


def test_reading_back_is_reckoned_with():
    """10 MB take 10 ms, as long as the training by itself; 95 ms pass until they are made anew."""
    assert proposal(FILES, decoding()).predicted == pytest.approx(0.0954 / 0.01003, rel=0.02)
    assert proposal(FILES, decoding(disk=slower(5))).predicted == pytest.approx(
        0.0954 / 0.05003, rel=0.02
    )
    assert "predicted gain 1.00x" in reason(FILES, decoding(disk=slower(20)))


def test_a_drawing_map_is_split_first():
    drawing = replace(
        DECODE,
        parallelism=1,
        is_random=True,
        deterministic_prefix=MapPrefix(op_count=9, bytes_per_element=10**7, cpu_s_per_element=0.35),
        wall_s_per_element=0.36,
    )
    found = proposal(FILES, decoding(stage(0, "range"), drawing, stage(2, "batch")))
    assert found.edits == (
        SplitMap(stage=1, expected_digest="51ab"),
        replace(KEPT, expected_digest=""),
    )
    assert "the deterministic part of decode" in found.rationale


def test_a_serial_map_fills_the_files_in_parallel():
    alone = {"cpu_s_per_element": 0.09, "wall_s_per_element": 0.09}
    serial = replace(DECODE, parallelism=1, **alone)
    found = proposal(FILES, decoding(stage(0, "range"), serial, stage(2, "batch")))
    assert found.edits == (
        ParallelMap(stage=1, expected_digest="51ab"),
        replace(KEPT, expected_digest=""),
    )


def test_bytes_are_read_sooner_than_floats():
    narrow = MapPrefix(op_count=9, bytes_per_element=2_500_000, cpu_s_per_element=0.35)
    widening = replace(DECODE, bytes_per_element=10**7, narrow_prefix=narrow)
    stages = stage(0, "range"), widening, stage(2, "batch")
    found = proposal(FILES, decoding(*stages, memory=10**8, disk=slower(5)))
    split, kept = found.edits
    assert split == SplitMap(stage=1, expected_digest="51ab")
    assert kept == replace(KEPT, expected_digest="", size_bytes=MANY.memory_bytes // 4)


def test_what_fits_into_memory_is_no_matter_for_files():
    assert "see cache" in reason(FILES, decoding(memory=4 * 10**9))
    assert proposal(FILES, decoding(memory=4 * 10**9), policy=Policy(memory_share=0.1))


def test_what_fits_but_gains_nothing_in_memory_is_no_reason_against_files():
    small = replace(MANY, element_count=MANY.element_count, memory_bytes=10**6)
    read = stage(1, "map", 0.001, name="read", parallelism=AUTOTUNE, cache_point=small)
    decode = replace(DECODE, index=2)
    stages = stage(0, "range"), read, decode, stage(3, "batch")
    assert "below" in reason(CacheOptimization(), decoding(*stages))
    assert proposal(FILES, decoding(*stages)).edits == (replace(KEPT, stage=2),)


def test_epochs_that_end_early_read_little_of_it_twice():
    """A tenth of the data in each of ten epochs: all is written, and nothing read back."""
    early = decoding(workload={"epochs": 10, "steps_per_epoch": 10})
    assert "longer than reading them saves in 1 passes over the data" in reason(FILES, early)


def test_very_many_small_elements_are_not_kept_in_files():
    many = replace(MANY, element_count=2 * 10**6)
    stages = stage(0, "range"), replace(DECODE, cache_point=many), stage(2, "batch")
    assert "the index of 2,000,000 elements takes 1.0 GB" in reason(FILES, decoding(*stages))


def test_nothing_is_written_where_no_folder_is_named():
    assert "--disk-cache DIR" in reason(FILES, decoding(disk=None))


def test_a_folder_that_takes_no_files_is_named_with_its_reason():
    refused = replace(
        DISK, refusal_reason="Uncork cannot cache files in /scratch: Permission denied"
    )
    assert reason(FILES, decoding(disk=refused)).endswith("Permission denied")


@pytest.mark.parametrize(("free", "fits"), [(2.1e9, False), (2.3e9, True)])
def test_there_must_be_room_for_two_of_them(free, fits):
    """While one is timed, another is compared."""
    found = ask(FILES, decoding(disk=replace(DISK, free_bytes=int(free))))
    if fits:
        assert found.edits == (KEPT,)
    else:
        assert found.reason == (
            "the trial needs 2.2 GB in the folder of --disk-cache, 2.1 GB are free"
        )


def test_epochs_must_win_back_the_writing():
    write = replace(FAST, wall_s_per_byte=5e-8)  # half a second each, where 0.09 are spared
    workload = {"epochs": 5, "steps_per_epoch": 100}
    slow = decoding(disk=replace(DISK, write_cost=write), workload=workload)
    assert "longer than reading them saves in 5 passes" in reason(FILES, slow)
    policy = Policy(budget_s=3600.0)
    longer = replace(slow, workload=replace(slow.workload, epochs=50))
    assert ask(FILES, longer, FOUR_CORES, policy).edits[0] == KEPT


def test_an_epoch_must_be_short_enough_to_be_compared():
    long = replace(MANY, element_count=1000, memory_bytes=10**10)
    stages = stage(0, "range"), replace(DECODE, cache_point=long), stage(2, "batch")
    told = reason(FILES, decoding(*stages))
    assert told == "an epoch takes 105 s, and the proof compares several: use --budget 1898"
    assert proposal(FILES, decoding(*stages), policy=Policy(budget_s=2000.0))


@pytest.mark.parametrize("changes", [{"is_distributed": True}, {"replicas": 2}])
def test_several_replicas_are_left_alone(changes):
    assert "strategy" in reason(FILES, decoding(workload=changes))


def test_one_epoch_reads_nothing_twice():
    assert "one epoch" in reason(FILES, decoding(workload={"epochs": 1}))


@pytest.mark.parametrize("situation", ["arrays", "pydataset", "generator"])
def test_without_tf_data_there_is_nothing_to_keep(situation):
    assert "not by tf.data" in reason(FILES, SITUATIONS[situation])
