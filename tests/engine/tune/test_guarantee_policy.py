"""How long a proof of an edit takes."""

from __future__ import annotations

import pytest

from uncork.core.edits.edit import Edit
from uncork.core.edits.pipeline import DiskCache, Prefetch
from uncork.core.edits.step import FlatUpdates
from uncork.engine.tune.guarantee_policy import _proof_s
from uncork.optimizations.base.proposal import Proposal
from uncork.training.variant import Variant

PREFETCH = Prefetch(expected_digest="")
IN_FILES = DiskCache(stage=0, expected_digest="", folder="/kept", size_bytes=9)


@pytest.mark.parametrize(
    ("edit", "in_force", "left_s", "seconds"),
    [
        (PREFETCH, (PREFETCH,), 5.0, 15.0),
        (PREFETCH, (PREFETCH,), 60.0, 60.0),
        (PREFETCH, (PREFETCH,), 500.0, 90.0),
        (FlatUpdates(), (), 5.0, 90.0),
        (IN_FILES, (IN_FILES,), 5.0, 90.0),
        (IN_FILES, (IN_FILES,), 500.0, 500.0),
    ],
)
def test_passes_over_the_data_take_the_time_that_is_left(
    edit: Edit, in_force: tuple[Edit, ...], left_s: float, seconds: float
) -> None:
    candidate = Variant(None, pipeline_edits=in_force)
    proposal = Proposal(edits=(edit,), predicted=2.0, at=None, rationale="")
    assert _proof_s(candidate, proposal, left_s) == seconds
