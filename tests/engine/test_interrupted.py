"""Ctrl-C, a full memory and an error in the middle of every lever leave the training as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.edit import (
    Cache,
    DtypePolicy,
    Edit,
    FlatUpdates,
    JitCompile,
    LoaderCache,
    LoaderWorkers,
    ParallelMap,
    PipelineEdit,
    Prefetch,
    StepEdit,
    StepsPerExecution,
    TfFunction,
)
from uncork.engine.fit_subject import FitSubject
from uncork.engine.subject import Version
from uncork.step.settings import dtype_policies
from uncork.step.snapshot import weights
from uncork.watch import loader_digest

from .interrupting import cases, drawn_next

ROWS = np.random.default_rng(4).normal(size=(64, 6)).astype("float32")
STEP_LEVERS: tuple[StepEdit, ...] = (
    StepsPerExecution(steps=3),
    FlatUpdates(),
    JitCompile(),
    DtypePolicy(policy="mixed_bfloat16"),
    TfFunction(code=""),
)
PIPELINE_LEVERS: tuple[PipelineEdit, ...] = (
    Cache(stage=1, expects=""),
    ParallelMap(stage=1, expects=""),
    Prefetch(expects=""),
)
LOADER_LEVERS = ("workers", "cache")
# Steps that go well before.
AFTER = 4


class Pages(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        rows = ROWS[4 * index : 4 * index + 4]
        return rows, rows[:, :2]


def pipeline() -> tf.data.Dataset:
    rows = tf.data.Dataset.from_tensor_slices(ROWS).map(lambda row: (row * 2, row[:2]))
    return rows.shuffle(64, seed=7).batch(4)


def trained(*, eagerly: bool = False) -> keras.Model:
    keras.utils.set_random_seed(3)
    layers = keras.layers
    narrow = [layers.Dense(8, activation="tanh") for _ in range(4)]
    model = keras.Sequential(
        [keras.Input((6,)), *narrow, layers.BatchNormalization(), layers.Dropout(0.3)]
    )
    model.add(layers.Dense(2))
    model.compile("adam", "mse", metrics=["mae"], run_eagerly=eagerly)
    model.fit(ROWS[:8], ROWS[:8, :2], batch_size=4, verbose=0)  # slots hold something by then
    return model


def settings(model: Any) -> tuple[Any, ...]:
    flags = (model.jit_compile, model.steps_per_execution, model.run_eagerly, model.stop_training)
    return (*flags, dtype_policies(model), keras.config.dtype_policy().name)


@contextmanager
def interrupted(model: Any, error: BaseException) -> Iterator[None]:
    """Some of the model's steps happen; after the last of them the error does."""
    made_as_ever = model.make_train_function
    happened = 0

    def made(force: bool = False) -> None:
        made_as_ever(force)
        if getattr(model.train_function, "interrupted", False):
            return
        function = model.train_function

        def stepping(iterator: Any) -> Any:
            nonlocal happened
            logs = function(iterator)
            happened += 1
            if happened >= AFTER:
                raise error
            return logs

        stepping.interrupted = True  # type: ignore[attr-defined]
        model.train_function = stepping

    vars(model)["make_train_function"] = made
    try:
        with pytest.raises(type(error)):
            yield
    finally:
        del vars(model)["make_train_function"]
    assert happened == AFTER


def check_untouched(data: Any, edit: Edit | str, error: BaseException, at: str, folder: Path):
    """Interrupt a trial; the user's own training then is that of a twin nobody has touched."""
    eagerly = isinstance(edit, TfFunction)
    twin = trained(eagerly=eagerly)
    before = settings(twin), drawn_next()
    twin.fit(data(), epochs=2, verbose=0)
    after = drawn_next()

    model = trained(eagerly=eagerly)
    assert (settings(model), drawn_next()) == before
    functions = model.train_function, model.test_function
    given = data()
    subject = FitSubject(model, {"x": given, "epochs": 2}, 0, "train.py:9", str(folder))
    version = edited(subject, edit, given)
    runner = subject.runner(version)  # what the model's step reaches is looked up here
    try:
        with interrupted(model, error):
            if at == "measured":
                runner.prime()
                runner.block(5.0)
            else:
                subject.prove_step(version, "rounding", 5.0)
    finally:
        subject.restore()
    assert (settings(model), drawn_next()) == before
    assert (model.train_function, model.test_function) == functions
    model.fit(given, epochs=2, verbose=0)
    for ours, theirs in zip(weights(model), weights(twin), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert drawn_next() == after


def edited(subject: FitSubject, edit: Edit | str, data: Any) -> Version:
    if edit == "workers":
        edit = LoaderWorkers(workers=2, expects=loader_digest(data))
    elif edit == "cache":
        edit = LoaderCache(bytes=1 << 20, expects=loader_digest(data))
    elif isinstance(edit, TfFunction):
        edit = TfFunction(code=subject.workload.step_code)
    if isinstance(edit, LoaderWorkers | LoaderCache):
        return subject.original.with_loader_edits((edit,))
    if isinstance(edit, PipelineEdit):
        return subject.original.with_pipeline_edits((edit,))
    assert isinstance(edit, StepEdit)
    return subject.original.with_step_edits((edit,))


@pytest.mark.parametrize(("edit", "at", "error"), cases(STEP_LEVERS, "measured", "proved"))
def test_in_the_middle_of_a_step_lever(
    edit: StepEdit, at: str, error: BaseException, tmp_path: Path
) -> None:
    check_untouched(pipeline, edit, error, at, tmp_path)


@pytest.mark.parametrize(("edit", "at", "error"), cases(PIPELINE_LEVERS, "measured"))
def test_in_the_middle_of_a_pipeline_lever(
    edit: PipelineEdit, at: str, error: BaseException, tmp_path: Path
) -> None:
    check_untouched(pipeline, edit, error, at, tmp_path)


@pytest.mark.parametrize(("edit", "at", "error"), cases(LOADER_LEVERS, "measured"))
def test_in_the_middle_of_a_loader_lever(
    edit: str, at: str, error: BaseException, tmp_path: Path
) -> None:
    check_untouched(Pages, edit, error, at, tmp_path)
