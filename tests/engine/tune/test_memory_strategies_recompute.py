"""A training that does not fit, and cannot be cut in parts: how much is made again, its proof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from uncork.core.base.errors import OutOfMemory
from uncork.core.base.journal import Journal
from uncork.core.documents.plan import Policy
from uncork.core.edits.step import MicroBatches, RecomputeActivations, StepsPerExecution
from uncork.core.evidence.batches import MemoryOverflow
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.tune import memory_model as room
from uncork.engine.tune.fit_in_memory import fit_into_memory
from uncork.engine.tune.memory_strategies import MicroBatchStrategy
from uncork.training.memory.segments import count_recomputed_segments
from uncork.training.run.fit_runner import FitRunner
from uncork.training.state.snapshot import read_weights

L = keras.layers
ROWS = np.random.default_rng(0).normal(size=(128, 8)).astype("float32")
SAID = "the training at train.py:9 runs out of memory: no memory"
MOST = 1 << 30


def subject(tmp_path: Path, *layers: Any, **compiled: Any) -> FitSubject:
    keras.utils.set_random_seed(3)
    body = [part for _ in range(6) for part in (L.Dense(8), L.ReLU())]
    model = keras.Sequential([keras.Input((8,)), *layers, *body, L.Dense(1)])
    model.compile(**{"optimizer": "adam", "loss": "mse", **compiled})
    given = {"x": ROWS, "y": ROWS[:, :1], "batch_size": 32, "epochs": 3}
    return FitSubject(model, given, 0, "train.py:9", str(tmp_path))


def normalized(tmp_path: Path, *layers: Any) -> FitSubject:
    return subject(tmp_path, L.BatchNormalization(name="norm"), L.Dropout(0.3), *layers)


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Memory for ten rows as written, each of which takes a tenth; a share of that in segments."""
    asked: list[tuple[int, int]] = []

    def taken(memory: Any, run: Any) -> int | None:
        runner: FitRunner = run.__self__.runner
        rows = next(iter(runner.feed.dataset))[0].shape[0]
        edits = [e for e in runner.settings.edits if isinstance(e, RecomputeActivations)]
        segments = edits[0].segments if edits else 1
        asked.append((segments, rows))
        run()
        used = rows / segments
        return int(used * MOST / 10) if used <= 10 else None

    monkeypatch.setattr(room.MemoryMeter, "measure_peak", taken)
    monkeypatch.setattr(room, "device_limit_bytes", lambda device: MOST * 10 / 8)
    monkeypatch.setattr(room, "device_peak_bytes", lambda device: 0)
    return asked


@pytest.mark.deep
def test_the_fewest_segments_that_fit_are_found_and_proved(
    tmp_path: Path, little: list[tuple[int, int]]
) -> None:
    found = normalized(tmp_path)
    before = read_weights(found.model)
    told, step = fit_into_memory(found, 2, SAID, Policy(), Journal(None))
    assert (told.segments, told.parts, told.fitting_rows) == (4, 1, 4)
    # In two segments the whole batch is foreseen to take too much, and is not tried.
    assert little == [(1, 1), (1, 4), (2, 1), (2, 4), (4, 1), (4, 4), (4, 32)]
    assert step.name == "recompute_activations"
    assert step.outcome == "kept"
    assert step.edits == (RecomputeActivations(segments=4),)
    assert step.proof is not None
    assert step.proof.kind == step.guarantee == "exact"
    assert "with 4 examples each" in step.proof.detail
    assert found.original.step_edits == step.edits
    assert all(np.array_equal(a, b) for a, b in zip(before, read_weights(found.model), strict=True))
    grouped = found.original.with_step_edits((StepsPerExecution(steps=2),))
    assert found.prove_step(grouped, "exact", 10.0).passed
    assert found.measure_batch_sizes(grouped, 1.0) == ()


def test_parts_come_first(tmp_path: Path, little: list[Any], monkeypatch: Any) -> None:
    fits = MemoryOverflow(
        error_message=SAID, fitting_rows=8, parts=4, peak_bytes=9, fitting_rows_peak_bytes=5
    )
    monkeypatch.setattr(MicroBatchStrategy, "_search", lambda *given: fits)
    told, step = fit_into_memory(subject(tmp_path), 2, SAID, Policy(), Journal(None))
    assert told is fits
    assert step.edits == (MicroBatches(parts=4),)


class Keeping(L.Layer):
    def call(self, inputs: Any) -> Any:
        self.last = inputs
        return inputs


def test_where_neither_helps_both_reasons_are_told(tmp_path: Path, little: list[Any]) -> None:
    found = normalized(tmp_path, Keeping(name="keeping"))
    with pytest.raises(OutOfMemory, match=r"'norm' .* over the whole batch") as refused:
        fit_into_memory(found, 2, SAID, Policy(), Journal(None))
    assert refused.value.received.count(SAID) == 1
    assert "the layer 'keeping' stores a tensor of its call" in refused.value.received
    assert "a smaller batch" in refused.value.remedy
    assert found.original.step_edits == ()


def test_in_no_number_of_segments_it_may_fit(tmp_path: Path, monkeypatch: Any) -> None:
    def taken(memory: Any, run: Any) -> int | None:
        rows = next(iter(run.__self__.runner.feed.dataset))[0].shape[0]
        return rows * MOST // 10 if rows <= 10 else None

    monkeypatch.setattr(room.MemoryMeter, "measure_peak", taken)
    monkeypatch.setattr(room, "device_limit_bytes", lambda device: MOST * 10 / 8)
    monkeypatch.setattr(room, "device_peak_bytes", lambda device: 0)
    with pytest.raises(OutOfMemory, match="with the largest number of segments"):
        fit_into_memory(normalized(tmp_path), 2, SAID, Policy(), Journal(None))


def test_more_segments_run_more_of_them_again(tmp_path: Path) -> None:
    model = normalized(tmp_path).model
    counts = [count_recomputed_segments(model, segments) for segments in (2, 4, 8, 64)]
    assert counts == sorted(set(counts))
