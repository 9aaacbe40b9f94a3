"""What a diagnosis sees of an accelerator."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest

from layer_watching import watched_layers
from step_edits import convolutions, subject_of
from uncork.measure.machine.devices import accelerators, detect_machine


def test_the_machine_has_it() -> None:
    assert detect_machine().devices == accelerators()
    assert all(name.startswith("GPU:") for name in accelerators())


def test_its_kernels_have_owners(tmp_path: Path) -> None:
    with watched_layers() as layers:
        subject = subject_of(convolutions(), tmp_path)
        subject.layers, subject.ends_process = layers, True
        parts = subject.measure_kernels(subject.original, 0.3)
    assert sum(part.share for part in parts) == pytest.approx(1.0)
    of_layers = {part.layer for part in parts if part.layer}
    assert keras.layers.Conv2D.__name__ in of_layers
    assert {"forward", "backward"} <= {part.phase for part in parts if part.layer == "Conv2D"}
