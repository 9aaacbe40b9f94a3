"""What a script leaves to timing by itself."""

from __future__ import annotations

import pytest

from uncork.core.base.record import replace
from uncork.core.evidence.stage import AUTOTUNE, Stage
from uncork.rules.nondeterminism import timing_notes

AUGMENT = Stage(index=2, kind="map", at="train.py:9", is_random=True, parallelism=AUTOTUNE)
CROP = replace(AUGMENT, index=3, at="train.py:12", parallelism=4)


def test_maps_that_draw_in_parallel_are_named_once_each():
    (found,) = timing_notes([AUGMENT, CROP, replace(CROP, index=4)])
    assert "at train.py:9, train.py:12, timing decides" in found


def test_where_no_line_is_known_the_stage_is_named():
    (found,) = timing_notes([replace(AUGMENT, at=None)])
    assert "at map, timing decides" in found


@pytest.mark.parametrize(
    "stage",
    [
        replace(AUGMENT, parallelism=1),
        replace(AUGMENT, parallelism=None),
        replace(AUGMENT, is_random=False),
        replace(AUGMENT, kind="shuffle"),
    ],
)
def test_what_draws_in_turn_or_not_at_all_is_repeatable(stage):
    assert timing_notes([stage]) == ()
