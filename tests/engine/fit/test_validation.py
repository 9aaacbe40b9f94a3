"""The validation of a ``fit``: timed, fed otherwise, proved; then in force while a script runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from optimizations.situations import FOUR_CORES
from records import STEPS, WORKLOAD, plan, workload_diagnosis
from uncork.capture.base.listener import FitCall
from uncork.core.base.errors import NothingToMeasure, PlanRefused
from uncork.core.base.journal import Journal
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan, Policy
from uncork.core.edits.edit import Edit, ValidationInput
from uncork.core.edits.pipeline import Cache
from uncork.core.edits.step import JitCompile, TfFunction
from uncork.engine.apply.plan_listener import PlanListener
from uncork.engine.diagnose.observe import observe
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.fit.validation import _ValidationRunner
from uncork.engine.tune.tuner import Tuner
from uncork.measure.benchmark.interleave import Block
from uncork.optimizations.validation_input import ValidationInputOptimization
from uncork.pipeline.equivalence.digests import element_digests
from uncork.pipeline.ir.tree import read_pipeline
from uncork.training.input.feed import spec_text
from uncork.training.state.snapshot import read_weights
from uncork.training.variant import Variant

ROWS = np.random.default_rng(4).normal(size=(64, 6)).astype("float32")
KEPT = next(step for step in STEPS if step.outcome == "kept")


def slowly(row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Some milliseconds of work that repeats itself."""
    square = tf.fill((128, 128), tf.reduce_sum(row))
    for _ in range(24):
        square = tf.matmul(square, square) * 1e-6
    return row + 0 * square[0, 0], row[:2]


def randomly(row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return row * tf.random.uniform([]), row[:2]


def validation(function: Any = slowly, rows: int = 48) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(ROWS[:rows]).map(function).batch(8)


def trained() -> keras.Model:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), keras.layers.Dense(2)])
    model.compile("adam", "mse")
    return model


def training() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((ROWS, ROWS[:, :2])).batch(8).prefetch(1)


@pytest.fixture
def subject(tmp_path: Path) -> Iterator[FitSubject]:
    given = {"x": training(), "validation_data": validation(), "epochs": 6}
    made = FitSubject(trained(), given, 0, "train.py:9", str(tmp_path))
    made.ends_process = True
    yield made
    made.restore()


def test_what_feeds_it_is_looked_at_where_it_takes_long(subject: FitSubject) -> None:
    short = subject.measure_validation(epoch_s=1e6, block_s=0.4)
    assert short is not None
    assert short.feed is None
    found = subject.measure_validation(epoch_s=0.01, block_s=0.4)
    assert found is not None
    assert found.feed is not None
    assert (found.sample_count, found.feed.batch_count, found.every_epochs) == (48, 6, 1)
    assert found.feed.pipeline_digest == read_pipeline(validation()).digest
    assert [stage.kind for stage in found.feed.stages] == ["from_tensor_slices", "map", "batch"]
    assert found.feed.resident_speedup > 1.5


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("arguments", "samples"),
    [
        ({"validation_data": (ROWS, ROWS[:, :2]), "batch_size": 20}, 80),  # in whole batches
        ({"validation_data": (ROWS, ROWS[:, :2]), "validation_batch_size": 30}, 90),
        ({"validation_data": training().repeat(), "validation_steps": 3}, 24),
        ({"x": ROWS, "y": ROWS[:, :2], "validation_split": 0.5, "batch_size": 20}, 40),
        ({"validation_data": training().filter(lambda *_: True)}, 64),
        ({"validation_data": training().repeat()}, None),
        ({"validation_data": training().take(0)}, None),
    ],
    ids=["arrays", "their own size", "steps", "split", "counted", "endless", "empty"],
)
def test_what_one_takes(tmp_path: Path, arguments: dict[str, Any], samples: int | None) -> None:
    """Of what a plan cannot feed otherwise, too."""
    given = {"x": training(), "epochs": 2, **arguments}
    made = FitSubject(trained(), given, 0, "train.py:9", str(tmp_path))
    made.ends_process = True
    found = made.measure_validation(epoch_s=0.001, block_s=0.2)
    assert (found and found.sample_count) == samples
    assert found is None or 0 < found.validation_s < 30
    assert found is None or found.feed is None or "steps" not in str(arguments)


def test_what_takes_too_long_is_reckoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uncork.engine.fit.validation._THROUGH_S", 0.1)
    slow = validation(rows=16).map(lambda x, y: (_waiting(x), y)).repeat(5)
    given = {"x": training(), "validation_data": slow, "epochs": 2}
    made = FitSubject(trained(), given, 0, "train.py:9", str(tmp_path))
    made.ends_process = True
    assert made.measure_validation(epoch_s=None, block_s=0.02) is not None
    ran = _ValidationRunner.block

    def by_decree(runner: _ValidationRunner, seconds: float) -> Block:
        return replace_fields(ran(runner, seconds), steps=4, samples=32.0, wall_s=0.2)

    monkeypatch.setattr(_ValidationRunner, "block", by_decree)
    found = made.measure_validation(epoch_s=None, block_s=0.02)
    assert found is not None
    assert found.sample_count == 80
    assert found.validation_s == pytest.approx(0.5)


def _waiting(x: tf.Tensor) -> tf.Tensor:
    def wait(x: Any) -> Any:
        time.sleep(0.05)
        return x

    return tf.ensure_shape(tf.numpy_function(wait, [x], tf.float32), (None, 6))


def test_in_a_process_that_goes_on_nothing_is_tried(subject: FitSubject) -> None:
    subject.ends_process = False
    assert subject.measure_validation(epoch_s=0.01, block_s=0.4) is None
    assert subject.validation_s(subject.original) is None


def test_the_best_way_to_feed_it_is_kept(
    subject: FitSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = _ValidationRunner.block

    def by_decree(runner: _ValidationRunner, seconds: float) -> Block:
        """Steps that read from a cache take a quarter of the time, however busy the machine is."""
        kept = runner._pipeline is not None and "cache" in {n.kind for n in runner._pipeline.stages}
        wall_s = 0.1 if kept else 0.4
        found = ran(runner, seconds)
        cpu_s = found.cpu_s * 60 / found.steps
        return replace_fields(found, steps=60, samples=480.0, wall_s=wall_s, cpu_s=cpu_s)

    monkeypatch.setattr(_ValidationRunner, "block", by_decree)
    model = subject.model
    weights = [v.numpy() for v in model.variables]
    functions = model.train_function, model.test_function
    before = observe(subject, FOUR_CORES, Journal(), budget_s=2.0)
    # Beside training steps of a millisecond: on a busy machine they may take a hundred.
    quick = replace(before.measurement.step_s, median=0.001, low=0.001, high=0.001)
    before = replace(before, measurement=replace(before.measurement, step_s=quick))
    walk = Tuner(
        subject,
        before,
        FOUR_CORES,
        Policy(budget_s=1e6),
        Journal(),
        optimizations=(ValidationInputOptimization(),),
    )
    walk.run()
    (step,) = walk.steps
    assert step.outcome == "kept", step.reason
    assert step.proof is not None
    assert step.measured is not None
    assert step.measured.ratio > 1.2
    (edit,) = step.edits
    assert isinstance(edit, ValidationInput)
    assert isinstance(edit.edits[0], Cache)
    assert walk.diagnosis.validation is not None
    assert walk.before.validation is not None
    assert walk.diagnosis.validation.validation_s < walk.before.validation.validation_s
    assert walk.diagnosis.measurement == walk.before.measurement, "it trains as before"
    subject.restore()
    assert (model.train_function, model.test_function) == functions
    assert all((v.numpy() == w).all() for v, w in zip(model.variables, weights, strict=True))


def test_a_cache_that_takes_too_long_to_fill_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it keeps: a validation is no reason to wait for minutes."""
    monkeypatch.setattr("uncork.engine.fit.validation._FILL_S", 0.01)
    given = {"x": training(), "validation_data": validation().cache(), "epochs": 2}
    made = FitSubject(trained(), given, 0, "train.py:9", str(tmp_path))
    made.ends_process = True
    with pytest.raises(NothingToMeasure, match="not full"):
        made.measure_validation(epoch_s=0.001, block_s=0.1)


def test_an_eager_model_validates_op_by_op(tmp_path: Path) -> None:
    """A plan makes its training step a graph, and nothing else."""
    model = trained()
    model.compile("adam", "mse", run_eagerly=True)
    ran = []

    def seen(*given: Any, **named: Any) -> Any:
        ran.append(tf.executing_eagerly())
        return type(model).test_step(model, *given, **named)

    model.test_step = seen
    given = {"x": training(), "validation_data": validation(rows=16), "epochs": 2}
    subject = FitSubject(model, given, 0, "train.py:9", str(tmp_path))
    subject.ends_process = True
    version = subject.original.with_step_edits(
        (TfFunction(code_digest=subject.workload.step_code_digest),)
    )
    assert subject.validation_s(version)
    assert ran
    assert all(ran)


@pytest.mark.every(2, first=1)
@pytest.mark.parametrize("rows", [40, 48])
def test_what_reads_otherwise_is_not_proved(subject: FitSubject, rows: int) -> None:
    edits = (Cache(stage=1, expected_digest=""),)
    candidate = subject.original.with_validation_edits(edits)
    assert subject.prove_validation(candidate, "exact", 200.0).passed
    other = validation(rows=rows) if rows < 48 else validation().skip(0)
    subject._validates()._versions[edits] = Variant(read_pipeline(other))
    assert not subject.prove_validation(candidate, "exact", 200.0).passed


# --- uncork run


def edit_of(dataset: tf.data.Dataset) -> ValidationInput:
    return ValidationInput(
        edits=(Cache(stage=1, expected_digest=""),), expected_digest=read_pipeline(dataset).digest
    )


def made_for(model: keras.Model, *edits: Edit) -> Plan:
    workload = replace(
        WORKLOAD,
        index=0,
        kind="fit",
        data_kind="tf.data",
        element_spec=spec_text(training().element_spec),
        validation_steps=None,
        model=None,
    )
    before = workload_diagnosis(workload=workload)
    return plan(before=before, steps=(replace(KEPT, edits=edits),))


def fitted(made: Plan, arguments: dict[str, Any], model: keras.Model, *, strict: bool) -> Any:
    def original(**given: Any) -> Any:
        return given, model.fit(**given).history

    call = FitCall(0, "train.py:9", model, arguments, original)
    return PlanListener(made, strict=strict).fit(call)


def test_under_a_plan_it_reads_the_same() -> None:
    data = validation()
    ours = {"x": training(), "validation_data": data, "epochs": 3, "verbose": 0}
    model = trained()
    given, history = fitted(made_for(model, edit_of(data)), ours, model, strict=True)
    edited = given["validation_data"]
    assert [node.kind for node in read_pipeline(edited).stages].count("cache") == 1
    assert given["x"] is ours["x"]
    assert element_digests(edited, epochs=2) == element_digests(validation(), epochs=2)
    assert history == trained().fit(**ours).history


@pytest.mark.parametrize(
    "otherwise",
    [
        {"validation_data": (ROWS, ROWS[:, :2])},
        {"validation_data": validation(randomly)},
        {"validation_data": validation(), "validation_steps": 3},
    ],
    ids=["arrays", "another pipeline", "steps"],
)
def test_another_validation_is_refused(
    otherwise: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    model = trained()
    made = made_for(model, edit_of(validation()))
    arguments = {"x": training(), "epochs": 1, "verbose": 0, **otherwise}
    given, _ = fitted(made, arguments, model, strict=False)
    assert given == arguments
    assert "trains unmodified" in capsys.readouterr().err
    with pytest.raises(PlanRefused, match="validation"):
        fitted(made, arguments, model, strict=True)


def test_a_later_training_that_is_another_one_ends_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first one is made by then, and its weights may be nowhere else."""
    model, seen = trained(), []
    made = made_for(model, edit_of(validation()))
    running = PlanListener(made, strict=True)
    for data in (validation(), validation(randomly)):
        arguments = {"x": training(), "validation_data": data, "epochs": 1, "verbose": 0}
        call = FitCall(0, "train.py:9", model, arguments, lambda **given: seen.append(given))
        running.fit(call)
        assert (seen[-1]["validation_data"] is data) == (len(seen) == 2)
    assert "trains unmodified" in capsys.readouterr().err


@pytest.mark.parametrize("given", [None, (validation(),)], ids=["none", "in a tuple"])
def test_what_keras_takes_is_taken(given: Any) -> None:
    model = trained()
    made = made_for(model, edit_of(validation()))
    arguments = {"x": training(), "validation_data": given, "epochs": 1, "verbose": 0}
    used, _ = fitted(made, arguments, model, strict=True)
    assert (used["validation_data"] is None) == (given is None)


def test_a_plan_for_a_validation_that_was_not_reached_is_not_met() -> None:
    model = trained()
    made = made_for(model, edit_of(validation()))
    assert not PlanListener(made, strict=True).is_settled


def test_a_cache_that_finds_no_room_is_refused() -> None:
    edit = replace(
        edit_of(validation()), edits=(Cache(stage=1, expected_digest="", size_bytes=10**15),)
    )
    model = trained()
    arguments = {"x": training(), "validation_data": validation(), "epochs": 1, "verbose": 0}
    with pytest.raises(PlanRefused, match="GB of memory"):
        fitted(made_for(model, edit), arguments, model, strict=True)


class Judged(keras.Model):
    """Its validation calls into Python, which XLA cannot compile; its training does not."""

    def test_step(self, data):
        x, y = data
        tf.py_function(lambda rows: None, [x], [])
        return super().test_step((x, y))


def test_a_step_that_the_validation_cannot_take_is_not_proved(tmp_path: Path) -> None:
    """The training itself would die at the end of its first epoch."""
    rows = keras.Input((ROWS.shape[1],))
    model = Judged(rows, keras.layers.Dense(2)(rows))
    model.compile("sgd", "mse")
    given = {"x": training(), "validation_data": validation(), "epochs": 6}
    found = FitSubject(model, given, 0, "train.py:9", str(tmp_path))
    found.ends_process = True
    before = read_weights(model)
    proof = found.prove_step(found.original.with_step_edits((JitCompile(),)), "rounding", 5.0)
    assert not proof.passed
    assert proof.detail.startswith("its validation fails: ")
    assert all((a == b).all() for a, b in zip(read_weights(model), before, strict=True))
    found.restore()
