from __future__ import annotations

import pytest

from optimizations.situations import WAITING, ask, proposal, reason
from records import MACHINE, observed, stage
from uncork.core.base.record import replace
from uncork.core.edits.pipeline import DecodeAndCrop
from uncork.core.evidence.stage import AUTOTUNE, MapPrefix, RandomPart
from uncork.optimizations.base.proposal import Skipped
from uncork.optimizations.input_rewrites.decode_and_crop import DecodeAndCropOptimization

CROP = DecodeAndCropOptimization()


def cropping(*parts_s, cost_s=0.09):
    """Maps that cost so much, and so little if they decoded no more than they crop."""
    maps = [
        stage(i, "map", cost_s, name="patch", parallelism=AUTOTUNE, cropped_cpu_s_per_element=part)
        for i, part in enumerate(parts_s, start=1)
    ]
    last = stage(len(maps) + 1, "batch")
    return observed(stage(0, "from_tensor_slices"), *maps, last, shares=WAITING)


def test_what_is_cropped_away_need_not_be_decoded():
    found = proposal(CROP, cropping(0.03))
    assert found.edits == (DecodeAndCrop(stage=1, expected_digest="51ab"),)
    assert found.at == "train.py:21"
    assert found.predicted > 2
    assert "67% of patch" in found.rationale


def test_the_map_that_wastes_most_comes_first():
    (edit,) = proposal(CROP, cropping(0.08, 0.02)).edits
    assert edit.stage == 2


def two_maps(calls):
    """One decodes in parallel; the next one crops, as many elements at once as is said."""
    load = stage(1, "map", 0.08, name="load", at="train.py:7", parallelism=AUTOTUNE)
    crop = stage(
        2,
        "map",
        0.01,
        name="patch",
        parallelism=calls,
        cropped_cpu_s_per_element=0.03,
        has_upstream_decoder=True,
    )
    return observed(stage(0, "from_tensor_slices"), load, crop, stage(3, "batch"), shares=WAITING)


def test_a_serial_map_takes_the_decoding_into_its_thread():
    assert "predicted gain" in reason(CROP, two_maps(1))


def test_of_two_maps_both_count():
    found = proposal(CROP, two_maps(AUTOTUNE))
    assert found.edits == (DecodeAndCrop(stage=2, expected_digest="51ab"),)
    assert found.at == "train.py:7"
    assert "67% of load and patch" in found.rationale
    assert found.predicted == pytest.approx(proposal(CROP, cropping(0.03)).predicted)


@pytest.mark.parametrize("part_s", [0.089, 0.09, 0.2])
def test_a_crop_of_nearly_all_is_left_alone(part_s):
    assert "predicted gain" in reason(CROP, cropping(part_s))


def test_a_map_that_decodes_sooner_in_two_parts_is_left_to_that():
    found = cropping(0.06)
    alone = {"parallelism": 1, "is_random": True}
    cut = MapPrefix(op_count=2, bytes_per_element=9, cpu_s_per_element=0.085)
    drawn = RandomPart(deterministic_op_count=9, cpu_s_per_element=0.001)
    for stage_of, left in (
        ({"deterministic_prefix": cut}, True),
        ({"deterministic_prefix": cut, "random_part": drawn}, False),
    ):
        patch = replace(found.stages[1], **alone, **stage_of)
        changed = replace(found, stages=(found.stages[0], patch, *found.stages[2:]))
        answer = ask(CROP, changed, MACHINE)
        assert isinstance(answer, Skipped) == left


def test_without_a_crop_there_is_nothing_to_do():
    assert "no map crops a JPEG image" in reason(CROP, cropping(None))
