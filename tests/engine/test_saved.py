"""The checkpoints of a ``fit``: timed, written beside it, proved; then under a plan."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from records import STEPS, WORKLOAD, plan
from road.situations import FOUR_CORES
from uncork.capture import FitCall, hold_saves
from uncork.core.edit import AsyncCheckpoint
from uncork.core.errors import PlanRefused
from uncork.core.journal import Journal
from uncork.core.plan import Plan, Policy
from uncork.core.record import replace
from uncork.engine.fit_subject import FitSubject
from uncork.engine.observe import observe
from uncork.engine.running import Running
from uncork.engine.walk import Walk
from uncork.road.async_checkpoint import SaveBeside
from uncork.step import CopiedSave, checkpoint_difference
from uncork.step.feed import spec_text

ROWS = np.random.default_rng(4).normal(size=(64, 6)).astype("float32")
KEPT = next(step for step in STEPS if step.outcome == "kept")
EDIT = AsyncCheckpoint(bytes=1)
WRITE = CopiedSave.write
Checkpoint = keras.callbacks.ModelCheckpoint


class Logging(keras.callbacks.Callback):
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        raise AssertionError("a trial calls no callback")


def trained() -> keras.Model:
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(8, name="one"), keras.layers.Dense(2, name="two")]
    model = keras.Sequential([keras.Input((6,), name="rows"), *layers], name="model")
    model.compile(keras.optimizers.Adam(name="adam"), "mse")
    return model


def subject_of(folder: Path, *callbacks: Any) -> FitSubject:
    given = {"x": ROWS, "y": ROWS[:, :2], "batch_size": 8, "epochs": 3, "callbacks": [*callbacks]}
    made = FitSubject(trained(), given, 0, "train.py:9", str(folder))
    made.ends_here = True
    return made


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a quiet machine."""
    monkeypatch.setattr("uncork.step.runner.settle", lambda: 0.0)
    monkeypatch.setattr("uncork.engine.saved.settle", lambda: 0.0)


@pytest.fixture
def subject(tmp_path: Path) -> Iterator[FitSubject]:
    made = subject_of(tmp_path, Logging(), Checkpoint(tmp_path / "{epoch}" / "c.keras"))
    with hold_saves():
        yield made
    made.restore()
    assert not list(tmp_path.iterdir()), "nothing is left of what was tried"


def test_a_save_is_timed_where_it_goes_to(subject: FitSubject) -> None:
    found = subject.saving(step_s=1e-4)
    assert found is not None
    assert (found.name, found.every, found.beside) == ("ModelCheckpoint", 8, 8)
    assert not found.refused
    assert not found.at_most
    assert found.seconds > 0
    # Weights of both layers, twice more in Adam; its iterations and rate, and those of the metric.
    assert found.bytes >= 3 * 4 * (6 * 8 + 8 + 8 * 2 + 2)


def test_in_a_process_that_goes_on_nothing_is_tried(subject: FitSubject) -> None:
    subject.ends_here = False
    assert subject.saving(step_s=0.1) is None


@pytest.mark.parametrize(
    ("names", "how", "why"),
    [
        (["a.keras", "b.keras"], {}, ""),
        (["a.keras", "b.keras"], {"save_freq": 3}, "at times of its own"),
        (["a.keras"], {"after": Logging()}, "Logging may look"),
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
    found = subject_of(tmp_path, *saving, *after).saving(step_s=0.01)
    assert (found and found.name) == (
        " and ".join(["ModelCheckpoint"] * len(names)) if found else None
    )
    if why is None:
        assert found is None
    else:
        assert found is not None
        assert found.name == " and ".join(["ModelCheckpoint"] * len(names))
        assert why in found.refused
        assert bool(why) == bool(found.refused)


def test_it_is_kept_where_it_pays(subject: FitSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk that lets everybody wait."""
    slow_s = 0.15
    monkeypatch.setattr(
        "uncork.engine.saved.saver_of", lambda _: _slowly(keras.src.saving.saving_lib, slow_s)
    )
    monkeypatch.setattr(CopiedSave, "__init__", _from_keras)
    monkeypatch.setattr(CopiedSave, "write", lambda *given: (time.sleep(slow_s), WRITE(*given)))
    weights = [v.numpy() for v in subject.model.variables]
    before = observe(subject, FOUR_CORES, Journal(), budget_s=0.5)
    assert before.saving is not None
    assert before.saving.seconds > slow_s
    walk = Walk(subject, before, FOUR_CORES, Policy(budget_s=1e6), Journal(), road=(SaveBeside(),))
    walk.run()
    (step,) = walk.steps
    assert step.outcome == "kept", step.reason
    assert step.saves
    assert step.proof is not None
    assert "bit for bit" in step.proof.detail
    assert walk.now.measurement == walk.before.measurement, "it trains as before"
    subject.restore()
    assert all(
        (v.numpy() == w).all() for v, w in zip(subject.model.variables, weights, strict=True)
    )


def _slowly(module: Any, seconds: float) -> Any:
    save = getattr(module.save_model, "__wrapped__", module.save_model)

    def slow(*given: Any) -> None:
        time.sleep(seconds)
        save(*given)

    slow.keras_s = save
    return slow


COPY = CopiedSave.__init__


def _from_keras(copied: CopiedSave, model: Any, save: Any, **how: Any) -> None:
    COPY(copied, model, save.keras_s, **how)


def test_another_file_is_not_proved(subject: FitSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    assert subject.saving(step_s=1e-3) is not None
    version = subject.original.with_edits((EDIT,))
    assert subject.prove_saving(version, "exact", 20.0).passed

    def late(copied: CopiedSave, path: Path) -> None:
        subject.model.layers[0].kernel.assign_add(np.ones((6, 8)))
        copied._store._entries[1][2]["0"][...] += 1
        WRITE(copied, path)

    monkeypatch.setattr(CopiedSave, "write", late)
    found = subject.prove_saving(version, "exact", 20.0)
    assert not found.passed
    assert "differs in" in found.detail


def test_another_training_is_not_proved(
    subject: FitSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert subject.saving(step_s=1e-3) is not None

    def touching(copied: CopiedSave, model: Any, save: Any, **how: Any) -> None:
        COPY(copied, model, save, **how)
        model.layers[0].kernel.assign_add(np.ones((6, 8)))

    monkeypatch.setattr(CopiedSave, "__init__", touching)
    version = subject.original.with_edits((EDIT,))
    found = subject.prove_saving(version, "exact", 20.0)
    assert not found.passed
    assert "copying changes" in found.detail


# --- uncork run


def made_for(model: keras.Model, edit: AsyncCheckpoint = EDIT) -> Plan:
    workload = replace(
        WORKLOAD,
        index=0,
        kind="fit",
        data="numpy",
        element_spec=spec_text((ROWS, ROWS[:, :2])),
        batch_size=8,
        steps_per_epoch=None,
        model=None,
        pipeline="",
        batch_hooks=(),
    )
    before = replace(plan().before, workload=workload)
    return plan(before=before, steps=(replace(KEPT, edits=(edit,), saves=True),))


def fitted(made: Plan, model: keras.Model, callbacks: Any, *, strict: bool = True) -> Any:
    arguments = {"x": ROWS, "y": ROWS[:, :2], "batch_size": 8, "epochs": 2, "verbose": 0}
    call = FitCall(0, "train.py:9", model, arguments | {"callbacks": callbacks}, model.fit)
    return Running(made, strict=strict).fit(call).history


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
    assert "saves as written" in capsys.readouterr().err
    with pytest.raises(PlanRefused, match="ModelCheckpoint"):
        fitted(made_for(model), model, None)
    with pytest.raises(PlanRefused, match="copies of checkpoints"):
        fitted(made_for(model, AsyncCheckpoint(bytes=1 << 50)), model, [Checkpoint("c.keras")])
