"""Levers that make room on the accelerator: is the peak that TensorFlow tells of it lower?"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu.conftest import DEVICE
from step_edits import convolutions, images, subject_of
from uncork.core.edits.step import MicroBatches, RecomputeActivations, StepEdit
from uncork.measure.machine.device_memory import (
    device_limit_bytes,
    device_peak_bytes,
    reset_device_peak,
)


def taken(folder: Path, *edits: StepEdit) -> int:
    """Bytes of a training of twelve convolutions on 32 images of 128 by 128: 2 GB as written."""
    model = convolutions(blocks=12, width=32, side=128, normalized=False)
    subject = subject_of(model, folder, images(side=128))
    reset_device_peak(DEVICE)
    subject.runner(subject.original.with_step_edits(edits)).prime()
    subject.restore()
    return device_peak_bytes(DEVICE)


def test_the_device_tells_its_memory() -> None:
    assert device_limit_bytes(DEVICE) > 2**30


@pytest.mark.parametrize(
    ("edit", "share"),
    [(MicroBatches(parts=4), 0.5), (RecomputeActivations(segments=4), 0.8)],
    ids=["parts", "segments"],
)
def test_less_is_taken(edit: StepEdit, share: float, tmp_path: Path) -> None:
    written = taken(tmp_path)
    assert taken(tmp_path, edit) < share * written
