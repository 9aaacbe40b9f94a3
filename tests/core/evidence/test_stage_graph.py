from __future__ import annotations

import pytest

from uncork.core.evidence.stage import Stage
from uncork.core.evidence.stage_graph import consecutive_stages, input_indices, join_depths


def listed(*firsts: int) -> list[Stage]:
    return [Stage(index=i, first_index=first, kind="any") for i, first in enumerate(firsts)]


CHAIN = listed(0, 0, 0)
# (images > map), labels > zip > batch
ZIP = listed(0, 0, 2, 0, 0)
# ((a, b > zip) > map), (c, d > zip) > concatenate
NESTED = listed(0, 1, 0, 0, 4, 5, 4, 0)


@pytest.mark.parametrize(
    ("stages", "index", "expected"),
    [
        (CHAIN, 0, ()),
        (CHAIN, 2, (1,)),
        (ZIP, 2, ()),
        (ZIP, 3, (1, 2)),
        (ZIP, 4, (3,)),
        (NESTED, 2, (0, 1)),
        (NESTED, 6, (4, 5)),
        (NESTED, 7, (3, 6)),
    ],
)
def test_a_stage_reads_from_the_tops_of_its_branches(stages, index, expected):
    assert input_indices(stages, index) == expected


def test_neighbours_are_of_one_branch():
    pairs = [(below.index, stage.index) for below, stage in consecutive_stages(NESTED)]
    assert pairs == [(2, 3)]
    assert [(b.index, s.index) for b, s in consecutive_stages(ZIP)] == [(0, 1), (3, 4)]


def test_branches_of_branches_lie_deeper():
    assert join_depths(CHAIN) == [0, 0, 0]
    assert join_depths(NESTED) == [2, 2, 1, 1, 2, 2, 1, 0]


def test_nothing_has_no_branches():
    assert join_depths([]) == []
    assert list(consecutive_stages([])) == []
