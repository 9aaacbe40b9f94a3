from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.evidence.stage import AUTOTUNE, CachePoint, MapPrefix
from uncork.rules.input import cache

WAITING = {"input": 0.8, "step": 0.2}


def point(gigabytes: float = 1.0) -> CachePoint:
    size = int(gigabytes * 1e9)
    return CachePoint(element_count=9_984, memory_bytes=size, saved_cpu_s_per_step=0.09)


def found(*stages, shares=None, **changes):
    diagnosis = observed(*stages, shares=WAITING if shares is None else shares, **changes)
    return list(cache.find(diagnosis, MACHINE))


DECODE = stage(1, "map", 0.09, parallelism=1, name="decode", cache_point=point())


def test_repeated_work_is_named_with_what_a_cache_would_take():
    (finding,) = found(stage(0, "range"), DECODE)
    assert finding.cause == "cache_missing"
    assert finding.at == "train.py:21"
    assert finding.upper_bound > 1.5
    for figure in ("9,984", "90 ms", "1 GB", "map(decode)"):
        assert figure in finding.evidence


def test_what_would_take_too_much_is_told_as_it_could_be_kept():
    bytes_ = MapPrefix(op_count=9, bytes_per_element=25_000, cpu_s_per_element=0.08)
    wide = replace(DECODE, bytes_per_element=100_000, narrow_prefix=bytes_, cache_point=point(6.0))
    (finding,) = found(stage(0, "range"), wide)
    assert "before the cast to a wider type, map(decode)" in finding.evidence
    for figure in ("1.5 GB", "80 ms"):  # of 90, ten are for widening, in every epoch
        assert figure in finding.evidence


def test_a_cache_that_spares_something_else_is_misplaced():
    first = stage(0, "cache", 0.0)
    (finding,) = found(first, DECODE)
    assert finding.cause == "cache_misplaced"
    assert finding.at == first.at
    assert "despite the cache" in finding.evidence
    assert "map(decode)" in finding.evidence


def test_a_cache_in_files_that_costs_most_is_storage():
    filed = stage(1, "cache", 0.08, is_file_cache=True, cache_point=point())
    scaled = stage(2, "map", 0.01, parallelism=1, cache_point=point())
    (finding,) = found(stage(0, "range"), filed, scaled)
    assert finding.cause == "storage_bound"
    assert finding.at == filed.at
    for figure in ("9,984", "80 ms", "1 GB"):
        assert figure in finding.evidence


def test_a_cache_in_files_that_costs_little_is_only_misplaced():
    filed = stage(0, "cache", 0.01, is_file_cache=True)
    (finding,) = found(filed, DECODE)
    assert finding.cause == "cache_misplaced"


def test_a_cache_of_another_branch_is_not_in_the_way():
    other = stage(0, "cache", 0.0)
    decode = stage(1, "map", 0.09, first_index=1, parallelism=1, name="decode", cache_point=point())
    (finding,) = found(other, decode, stage(2, "zip"))
    assert finding.cause == "cache_missing"


def test_only_the_deterministic_part_is_promised():
    prefix = MapPrefix(op_count=3, bytes_per_element=10, cpu_s_per_element=0.08)
    drawing = stage(
        1,
        "map",
        0.09,
        parallelism=1,
        is_random=True,
        deterministic_prefix=prefix,
        cache_point=point(),
    )
    (finding,) = found(stage(0, "range"), drawing)
    assert "the deterministic part of" in finding.evidence


def test_the_best_of_several_places_is_named():
    early = stage(0, "map", 0.02, parallelism=1, cache_point=point(0.1))
    late = stage(1, "map", 0.07, parallelism=1, cache_point=point(2))
    (finding,) = found(early, late)
    assert finding.at == late.at


def test_the_largest_that_fits_is_named():
    early = stage(0, "map", 0.05, parallelism=1, cache_point=point(0.1))
    late = stage(1, "map", 0.05, parallelism=1, cache_point=point(7))
    (finding,) = found(early, late)
    assert finding.at == early.at


def test_one_epoch_reads_nothing_twice():
    assert found(DECODE, workload={"epochs": 1}) == []


def test_what_does_not_fit_is_not_promised():
    assert found(DECODE, memory_available_bytes=1_900_000_000) == []
    assert found(DECODE, memory_available_bytes=0) == []


def test_a_step_that_does_not_wait_is_left_alone():
    assert found(DECODE, shares={"input": 0.05, "step": 0.95}) == []


def test_no_legal_place_no_finding():
    assert found(stage(0, "map", 0.09, parallelism=1, is_random=True)) == []
    assert found() == []


@pytest.mark.parametrize("parallelism", [1, AUTOTUNE])
def test_a_cache_that_spares_little_is_left_alone(parallelism):
    cheap = stage(0, "map", 0.002, parallelism=parallelism, cache_point=point())
    assert found(cheap, stage(1, "map", 0.09, parallelism=1)) == []


def test_a_fit_that_ends_before_its_data_does_reads_nothing_twice():
    """Told its number of steps it reads on from epoch to epoch."""
    given = {"has_explicit_steps": True, "steps_per_epoch": 100}
    assert found(stage(0, "range"), DECODE, workload={**given, "epochs": 99}) == []
    assert found(stage(0, "range"), DECODE, workload={**given, "epochs": 101})
    assert found(stage(0, "range"), DECODE, workload={"steps_per_epoch": 100, "epochs": 2})


def test_what_repeats_its_source_is_read_again_within_one_epoch():
    assert found(stage(0, "range"), DECODE, workload={"epochs": 1}) == []
    assert found(stage(0, "range"), DECODE, workload={"epochs": 1, "is_source_repeated": True})
