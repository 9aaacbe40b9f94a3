from __future__ import annotations

import pytest

from records import MACHINE, observed, stage
from uncork.core.evidence.stage import RepeatedWork
from uncork.rules.input import wasted_work

WAITING = {"input": 0.8, "step": 0.2}


def found(kept, *, kind="filter", cost=0.09, shares=None, by_number=False):
    """A map that costs so many seconds a step, and a stage that keeps a share of what it makes."""
    made = 32 / kept
    decode = stage(0, "map", cost / made, name="decode", elements_per_step=made)
    chosen = stage(1, kind, 0.0, name="wanted", elements_per_step=32.0, is_index_based=by_number)
    diagnosis = observed(decode, chosen, shares=shares or WAITING)
    return list(wasted_work.find(diagnosis, MACHINE))


def test_what_is_made_for_nothing_is_named():
    (finding,) = found(0.2)
    assert finding.cause == "wasted_work"
    assert finding.at == "train.py:21"
    assert 2 < finding.upper_bound < 5.1
    for figure in ("filter(wanted)", "20%", "72 ms"):
        assert figure in finding.evidence


@pytest.mark.parametrize("kind", ["shard", "filter"])
def test_one_of_so_many_is_for_another_worker(kind):
    (finding,) = found(0.5, kind=kind, by_number=True)
    assert finding.cause == "unsharded_input"
    assert "keeps 50%" in finding.evidence
    assert "shard" in finding.remedy


def test_what_is_skipped_is_wasted_too():
    (finding,) = found(0.5, kind="skip")
    assert finding.cause == "wasted_work"


@pytest.mark.parametrize(
    "changes",
    [
        {"kept": 1.0},  # drops nothing
        {"kept": 0.97},  # next to nothing
        {"kept": 0.2, "kind": "map"},
        {"kept": 0.2, "cost": 0.001},  # what it drops is cheap
        {"kept": 0.2, "shares": {"input": 0.05, "step": 0.95}},
    ],
)
def test_little_waste_is_left_alone(changes):
    assert found(**changes) == []


def ignored(needed_s):
    """A map of 64 ms a step, and one that takes a part of what it makes."""
    both = stage(
        0,
        "map",
        0.002,
        name="views",
        at="train.py:7",
        elements_per_step=32.0,
        needed_cpu_s_per_element=needed_s,
    )
    one = stage(1, "map", 0.0, name="first", elements_per_step=32.0, unused_output_maps=(0,))
    return list(wasted_work.find(observed(both, one, shares=WAITING), MACHINE))


def test_parts_that_nobody_takes_are_named_where_they_are_made():
    (finding,) = ignored(0.001)
    assert (finding.cause, finding.at) == ("wasted_work", "train.py:7")
    assert 1.4 < finding.upper_bound < 3.0
    for figure in ("map(views)", "map(first)", "32 ms"):
        assert figure in finding.evidence


def test_parts_that_cost_little_may_be_made_for_nothing():
    assert ignored(0.00199) == []


def cropping(part_s):
    """A map of 64 ms a step that crops what it decodes."""
    data = stage(
        0,
        "map",
        0.002,
        name="patch",
        at="train.py:7",
        elements_per_step=32.0,
        cropped_cpu_s_per_element=part_s,
    )
    return list(wasted_work.find(observed(data, shares=WAITING), MACHINE))


def test_pixels_that_are_cropped_away_are_named():
    (finding,) = cropping(0.001)
    assert (finding.cause, finding.at) == ("wasted_work", "train.py:7")
    for figure in ("map(patch) decodes whole images, and it crops them", "32 ms"):
        assert figure in finding.evidence
    assert "decode_and_crop_jpeg" in finding.remedy


def test_the_map_that_decodes_is_named_where_the_next_one_crops():
    load = stage(0, "map", 0.0019, name="load", at="train.py:7", elements_per_step=32.0)
    patch = stage(
        1,
        "map",
        0.0001,
        name="patch",
        at="train.py:9",
        elements_per_step=32.0,
        cropped_cpu_s_per_element=0.001,
        has_upstream_decoder=True,
    )
    (finding,) = wasted_work.find(observed(load, patch, shares=WAITING), MACHINE)
    assert finding.at == "train.py:7"
    assert "map(load) decodes whole images, and map(patch) crops them" in finding.evidence
    assert "32 ms" in finding.evidence


def test_a_crop_of_nearly_all_may_be_decoded_whole():
    assert cropping(0.00199) == []


def zipped(times, *, cost=0.02):
    """Branches that make the same elements, which cost so many seconds a step."""
    branches = [
        stage(i, "map", cost / 32, first_index=i, elements_per_step=32.0) for i in range(times)
    ]
    again = RepeatedWork(
        repetitions=times, duplicate_stages=tuple(range(1, times)), at="train.py:48"
    )
    both = stage(times, "zip", 0.0, elements_per_step=32.0, repeated_work=again)
    batch = stage(times + 1, "batch", 0.0, elements_per_step=1.0)
    return list(wasted_work.find(observed(*branches, both, batch, shares=WAITING), MACHINE))


def test_what_is_made_several_times_is_named_at_its_second_reader():
    (finding,) = zipped(4)
    assert finding.at == "train.py:48"
    assert finding.upper_bound > 1.5
    for figure in ("4 branches", "60 ms"):
        assert figure in finding.evidence


def test_what_costs_little_may_be_made_twice():
    assert zipped(2, cost=0.0005) == []
