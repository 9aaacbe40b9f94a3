"""Each lever of the step does what it promises: its own proof says so, and leaves all as it was.

On a CPU here, and on the kernels of an accelerator where one is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from step_edits import BATCH, convolutions, embedding, proved, subject_of, texts
from uncork.core.edits.edit import Guarantee
from uncork.core.edits.step import (
    FlatUpdates,
    FusedUpdates,
    JitCompile,
    JitCompileOff,
    MicroBatches,
    RecomputeActivations,
    RowUpdates,
    StepEdit,
    StepsPerExecution,
)
from uncork.measure.machine.devices import accelerators
from uncork.optimizations.host.map_on_device import device_map_edits
from uncork.pipeline.profile.stage_costs import measure_stage_costs
from uncork.training.state.snapshot import read_weights

EXACT: list[StepEdit] = [
    StepsPerExecution(steps=4),
    FlatUpdates(),
    RecomputeActivations(segments=3),
]
ROUNDING: list[tuple[StepEdit, dict[str, Any]]] = [
    (FusedUpdates(), {}),
    (JitCompile(), {}),
    (JitCompileOff(), {"jit_compile": True}),
]


def judged(model: Any, folder: Path, edit: StepEdit, kind: Guarantee, data: Any = None) -> str:
    """The kind of guarantee that was found, after a look at what the proof left behind."""
    subject = subject_of(model, folder, data)
    before = read_weights(subject.model)
    found = proved(subject, subject.original.with_step_edits((edit,)), kind)
    assert found.passed, found.detail
    after = read_weights(subject.model)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    return found.kind


@pytest.mark.every(3)
@pytest.mark.parametrize("edit", EXACT, ids=lambda edit: type(edit).__name__)
def test_bits_stay_the_same(edit: StepEdit, tmp_path: Path) -> None:
    kind = judged(convolutions(), tmp_path, edit, "exact")
    assert kind == "exact" or accelerators()


def test_rows_of_a_table_are_updated_as_all_of_it_would_be(tmp_path: Path) -> None:
    """The sums of an embedding's gradient are made in another order."""
    judged(embedding(optimizer="sgd"), tmp_path, RowUpdates(), "exact", texts())


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("edit", "compiled"), ROUNDING, ids=[type(edit).__name__ for edit, _ in ROUNDING]
)
def test_other_kernels_round_otherwise(
    edit: StepEdit, compiled: dict[str, Any], tmp_path: Path
) -> None:
    judged(convolutions(**compiled), tmp_path, edit, "rounding")


def test_xla_is_proved_without_tf32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where products are rounded to it, wherever either likes."""
    monkeypatch.setattr("uncork.engine.fit.fit_subject.is_tf32_enabled", lambda: True)
    subject = subject_of(convolutions(), tmp_path)
    version = subject.original.with_step_edits((JitCompile(),))
    found = subject.prove_step(version, "rounding", 20.0)
    assert found.passed, found.detail
    assert "without TF32" in found.detail


def test_parts_of_a_batch_are_proved(tmp_path: Path) -> None:
    """On few rows of each batch, as where the whole of it has no room."""
    subject = subject_of(convolutions(normalized=False), tmp_path)
    subject.require_edits((MicroBatches(parts=4),))
    found = subject.prove_on_rows(BATCH // 4)
    assert found.passed, found.detail


@pytest.mark.deep
@pytest.mark.every(2)
@pytest.mark.parametrize("kind", ["map", "from_tensor_slices"])
def test_what_is_made_on_the_device_is_proved(kind: str, tmp_path: Path) -> None:
    subject = subject_of(convolutions(), tmp_path)
    stages = measure_stage_costs(subject.original.pipeline, batch_size=BATCH, budget_s=0.2)
    last = next(stage for stage in stages if stage.step_offload and stage.kind == kind)
    version = subject.original.with_edits(
        device_map_edits(last.step_offload, "", gathers_rows=kind != "map")
    )
    found = proved(subject, version, "exact")
    assert found.passed, found.detail
    assert subject.runner(version).prime() > 0
