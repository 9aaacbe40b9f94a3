from __future__ import annotations

import pytest

from records import observed, stage
from uncork.core.pipeline_edit import DecodeAndCrop
from uncork.core.stage import AUTOTUNE
from uncork.road.decode_and_crop import DecodeWhatIsCropped

from .situations import WAITING, proposal, reason

CROP = DecodeWhatIsCropped()


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
    assert found.edits == (DecodeAndCrop(stage=1, expects="51ab"),)
    assert found.at == "train.py:21"
    assert found.predicted > 2
    assert "67% of patch" in found.why


def test_the_map_that_wastes_most_comes_first():
    (edit,) = proposal(CROP, cropping(0.08, 0.02)).edits
    assert edit.stage == 2


@pytest.mark.parametrize("part_s", [0.089, 0.09, 0.2])
def test_a_crop_of_nearly_all_is_left_alone(part_s):
    assert "predicted gain" in reason(CROP, cropping(part_s))


def test_without_a_crop_there_is_nothing_to_do():
    assert "no map crops a JPEG image" in reason(CROP, cropping(None))
