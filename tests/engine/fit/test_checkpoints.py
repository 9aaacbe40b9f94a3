"""The checkpoints of a ``fit``: timed, written beside it, proved; then under a plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from optimizations.situations import FOUR_CORES
from records import STEPS, WORKLOAD, measurement, observed, plan
from uncork.capture.base.listener import FitCall
from uncork.capture.sandbox.redirected_saves import redirect_saves
from uncork.core.base.errors import PlanRefused
from uncork.core.base.journal import Journal
from uncork.core.base.measurement import compare
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan, Policy
from uncork.core.edits.edit import AsyncCheckpoint
from uncork.engine.apply.plan_listener import PlanListener
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.tune.tuner import Tuner
from uncork.measure.benchmark.interleave import Block, Trial
from uncork.optimizations.host.async_checkpoint import AsyncCheckpointOptimization
from uncork.training.callbacks.checkpoint_copy import CheckpointCopy
from uncork.training.callbacks.checkpoint_diff import checkpoint_difference
from uncork.training.input.feed import spec_text

ROWS = np.random.default_rng(4).normal(size=(64, 6)).astype("float32")
KEPT = next(step for step in STEPS if step.outcome == "kept")
EDIT = AsyncCheckpoint(size_bytes=1)
WRITE, COPY = CheckpointCopy.write, CheckpointCopy.__init__
Checkpoint = keras.callbacks.ModelCheckpoint


class Logging(keras.callbacks.Callback):
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        raise AssertionError("a trial calls no callback")


def trained() -> keras.Model:
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(8, name="one"), keras.layers.Dense(2, name="two")]
    model = keras.Sequential([keras.Input((6,), name="rows"), *layers], name="model")
    model.compile(keras.optimizers.Adam(name="adam"), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def subject_of(folder: Path, *callbacks: Any) -> FitSubject:
    given = {"x": ROWS, "y": ROWS[:, :2], "batch_size": 8, "epochs": 3, "callbacks": [*callbacks]}
    made = FitSubject(trained(), given, 0, "train.py:9", str(folder))
    made.ends_process = True
    return made


@pytest.fixture
def subject(tmp_path: Path) -> Iterator[FitSubject]:
    made = subject_of(tmp_path, Logging(), Checkpoint(tmp_path / "{epoch}" / "c.keras"))
    with redirect_saves(tmp_path / "own" / "saves"):
        yield made
    made.restore()
    assert not list(tmp_path.iterdir()), "nothing is left of what was tried"


def test_a_save_is_timed_where_it_goes_to(subject: FitSubject) -> None:
    found = subject.measure_checkpoint_cost(step_s=1e-4)
    assert found is not None
    assert (found.name, found.every_steps, found.trial_steps) == ("ModelCheckpoint", 8, 8)
    assert not found.refusal_reason
    assert not found.is_save_best_only
    assert found.save_s > 0
    # Weights of both layers, twice more in Adam; its iterations and rate, and those of the metric.
    assert found.copy_bytes >= 3 * 4 * (6 * 8 + 8 + 8 * 2 + 2)


def test_in_a_process_that_goes_on_nothing_is_tried(subject: FitSubject) -> None:
    subject.ends_process = False
    assert subject.measure_checkpoint_cost(step_s=0.1) is None


@pytest.mark.parametrize(
    ("names", "how", "why"),
    [
        (["a.keras", "b.keras"], {}, ""),
        (["a.keras", "b.keras"], {"save_freq": 3}, "at different times"),
        (["a.keras"], {"after": Logging()}, "'Logging' may read"),
        (["old.h5"], {}, None),
        (["gs://bucket/a.keras"], {}, None),
    ],
)
def test_what_cannot_be_written_beside(
    names: list[str], how: dict[str, Any], why: str | None, tmp_path: Path
) -> None:
    after = [how.pop("after")] if "after" in how else []
    paths = [name if "://" in name else str(tmp_path / name) for name in names]
    saving = [Checkpoint(paths[0]), *(Checkpoint(path, **how) for path in paths[1:])]
    found = subject_of(tmp_path, *saving, *after).measure_checkpoint_cost(step_s=0.01)
    assert (found and found.name) == (
        " and ".join(["ModelCheckpoint"] * len(names)) if found else None
    )
    if why is None:
        assert found is None
    else:
        assert found is not None
        assert found.name == " and ".join(["ModelCheckpoint"] * len(names))
        assert why in found.refusal_reason
        assert bool(why) == bool(found.refusal_reason)


@pytest.mark.parametrize(("faster", "outcome"), [(1.5, "kept"), (1.001, "rejected")])
def test_it_counts_by_what_lies_between_two_saves(
    subject: FitSubject, monkeypatch: pytest.MonkeyPatch, faster: float, outcome: str
) -> None:
    ran: list[Block] = []

    def compared(base: Any, candidate: Any, **how: Any) -> Trial:
        ran.extend((base.block(0.0), candidate.block(0.0)))
        found = compare([1.0, 1.01, 1.0], [faster, faster, faster], min_ratio=how["min_ratio"])
        return Trial(base=measurement(1.0), candidate=measurement(faster), comparison=found)

    monkeypatch.setattr("uncork.engine.tune.tuner.interleave", compared)
    found = subject.measure_checkpoint_cost(step_s=0.1)
    assert found is not None
    # As long as two of its eight steps, with four of them behind it.
    found = replace(found, save_s=0.2, save_cpu_s=0.0, copy_s=0.0, trial_steps=4)
    before = observed(step_s=0.1, checkpoint_cost=found)
    journal, policy = Journal(), Policy(budget_s=1e6)
    walk = Tuner(
        subject, before, FOUR_CORES, policy, journal, optimizations=(AsyncCheckpointOptimization(),)
    )
    walk.run()
    (step,) = walk.steps
    assert step.outcome == outcome, step.reason
    assert len(ran) == 2
    assert all(block.steps == subject._checkpoint_trial.steps_per_save for block in ran)
    if outcome == "kept":
        assert step.is_for_checkpoints
        assert step.measured is not None
        # One save and four steps take 0.6 s of 1 s, and come to take 0.4 s.
        assert step.measured.ratio == pytest.approx(1.0 / 0.8, rel=0.02)
        assert step.proof is not None
        assert "bit for bit" in step.proof.detail
        assert walk.diagnosis.measurement == before.measurement, "it trains as before"


def test_another_file_is_not_proved(subject: FitSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    assert subject.measure_checkpoint_cost(step_s=1e-3) is not None
    version = subject.original.with_edits((EDIT,))
    assert subject.prove_checkpoints(version, "exact", 20.0).passed

    def late(copied: CheckpointCopy, path: Path) -> None:
        copied._store._entries[1][2]["0"][...] += 1
        WRITE(copied, path)

    monkeypatch.setattr(CheckpointCopy, "write", late)
    found = subject.prove_checkpoints(version, "exact", 20.0)
    assert not found.passed
    assert "differs in" in found.detail


def test_another_training_is_not_proved(
    subject: FitSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert subject.measure_checkpoint_cost(step_s=1e-3) is not None

    def touching(copied: CheckpointCopy, model: Any, save: Any, **how: Any) -> None:
        COPY(copied, model, save, **how)
        model.layers[0].kernel.assign_add(np.ones((6, 8)))

    monkeypatch.setattr(CheckpointCopy, "__init__", touching)
    version = subject.original.with_edits((EDIT,))
    found = subject.prove_checkpoints(version, "exact", 20.0)
    assert not found.passed
    assert "copying changes" in found.detail


# --- uncork run


def made_for(model: keras.Model, edit: AsyncCheckpoint = EDIT) -> Plan:
    workload = replace(
        WORKLOAD,
        index=0,
        kind="fit",
        data_kind="numpy",
        element_spec=spec_text((ROWS, ROWS[:, :2])),
        batch_size=8,
        steps_per_epoch=None,
        model=None,
        pipeline_digest="",
        batch_callbacks=(),
    )
    before = replace(plan().before, workload=workload)
    return plan(before=before, steps=(replace(KEPT, edits=(edit,), is_for_checkpoints=True),))


def fitted(made: Plan, model: keras.Model, callbacks: Any, *, strict: bool = True) -> Any:
    arguments = {"x": ROWS, "y": ROWS[:, :2], "batch_size": 8, "epochs": 2, "verbose": 0}
    call = FitCall(0, "train.py:9", model, arguments | {"callbacks": callbacks}, model.fit)
    return PlanListener(made, strict=strict).fit(call).history


def test_under_a_plan_files_and_history_are_the_same(tmp_path: Path) -> None:
    written, ours = tmp_path / "written.keras", tmp_path / "ours.keras"
    expected = fitted(plan(steps=()), trained(), [Checkpoint(written)])
    model = trained()
    assert fitted(made_for(model), model, [Checkpoint(ours)]) == expected
    assert checkpoint_difference(written, ours) == ""


def test_without_a_checkpoint_it_trains_as_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = trained()
    fitted(made_for(model), model, None, strict=False)
    assert "saves synchronously" in capsys.readouterr().err
    with pytest.raises(PlanRefused, match="ModelCheckpoint"):
        fitted(made_for(model), model, None)
    with pytest.raises(PlanRefused, match="copies of checkpoints"):
        fitted(made_for(model, AsyncCheckpoint(size_bytes=1 << 50)), model, [Checkpoint("c.keras")])
