"""Half precision on tensor cores, and what travels to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from step_edits import BATCH, convolutions, images, proved, small_images, subject_of
from uncork.core.edits.step import DtypePolicy, Precision

SIDE = 32


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_is_proved_over_orders_of_the_data(
    policy: Precision, tmp_path: Path
) -> None:
    subject = subject_of(convolutions(width=32, side=SIDE), tmp_path, images(SIDE))
    version = subject.original.with_step_edits((DtypePolicy(policy=policy),))
    found = proved(subject, version, "precision")
    assert found.passed, found.detail


def test_floats_that_travel_are_seen(tmp_path: Path) -> None:
    subject = subject_of(convolutions(side=SIDE), tmp_path, images(SIDE))
    found = subject.measure_transfer(subject.original)
    assert found is not None
    of_pixels = BATCH * small_images(SIDE)[0][0].size
    assert of_pixels * 4 <= found.batch_bytes <= of_pixels * 4 + BATCH * 8
    assert found.free_device_bytes
