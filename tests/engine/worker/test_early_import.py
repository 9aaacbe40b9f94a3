"""TensorFlow imported ahead of the script: only where that is what the script would import."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from uncork.core.base.journal import Event
from uncork.core.documents.job import ConfirmJob
from uncork.engine.process.worker_process import Script, WorkerProcess
from uncork.engine.worker.early_import import ImportObserver

TRAINING = """
import keras, numpy as np
x = np.random.default_rng(0).random((96, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=8, epochs=3, verbose=0)
"""


@pytest.fixture
def observe(monkeypatch, tmp_path):
    """Observe a script in ``tmp_path``."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return ImportObserver


def imported(observer: ImportObserver) -> bool:
    """TensorFlow is imported, as the import system would tell it."""
    observer.find_spec("numpy")
    observer.find_spec("tensorflow")
    return observer.is_usual


def test_a_script_that_imports_it_as_it_started_may_have_it_imported(observe):
    observer = observe()
    assert imported(observer)


def test_the_import_system_asks_it_while_the_script_runs(observe):
    before = list(sys.meta_path)
    with observe() as observer:
        assert sys.meta_path == [observer, *before]
    assert sys.meta_path == before


def test_what_was_never_imported_may_not(observe):
    observer = observe()
    assert not observer.is_usual


def test_a_script_that_sets_a_variable_before_may_not(observe, monkeypatch):
    observer = observe()
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert not imported(observer)


def test_what_it_sets_later_does_not_matter(observe, monkeypatch):
    observer = observe()
    observer.find_spec("tensorflow")
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert observer.is_usual


def test_a_script_that_searches_elsewhere_may_not(observe, monkeypatch):
    observer = observe()
    monkeypatch.setattr(sys, "path", [*sys.path, "vendored"])
    assert not imported(observer)


def test_a_script_that_leaves_cores_to_others_may_not(observe):
    observer = observe()
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, sorted(cores)[:1])
        assert imported(observer) == (len(cores) == 1)
    finally:
        os.sched_setaffinity(0, cores)


@pytest.mark.parametrize(
    ("name", "is_usual"), [("models", True), ("queue", False), ("msgspec", False)]
)
@pytest.mark.parametrize("file", ["{}.py", "{}/__init__.py"])
def test_a_module_beside_the_script_may_hide_none(
    observe, monkeypatch, tmp_path, name, file, is_usual
):
    observer = observe()
    module = ModuleType(name)
    module.__file__ = str(tmp_path / file.format(name))
    monkeypatch.setitem(sys.modules, name, module)
    assert imported(observer) == is_usual


@pytest.mark.slow
def test_it_waits_until_it_is_released_and_does_the_job_it_is_given_then(
    tmp_path: Path, monkeypatch, forked_processes
) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    monkeypatch.chdir(tmp_path)
    events: list[Event] = []
    job, script = ConfirmJob(training_index=7), Script("train.py")
    with WorkerProcess(job, script, quiet=True, imports_first=True) as worker:
        worker.wait_for_import()
        found = worker.run(ConfirmJob(training_index=0), events.append)
    assert found.confirmation is not None
    assert found.confirmation.measurement.samples_per_s > 0


def test_one_that_is_never_released_ends_with_the_block(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "train.py").write_text("open('began', 'w')")
    monkeypatch.chdir(tmp_path)
    before = psutil.Process().children(recursive=True)
    with WorkerProcess(ConfirmJob(), Script("train.py"), quiet=True, imports_first=True):
        time.sleep(0.5)
        started = set(psutil.Process().children(recursive=True)) - set(before)
        assert started
    assert not (tmp_path / "began").exists()
    assert not any(
        each.is_running() and each.status() != psutil.STATUS_ZOMBIE
        for each in psutil.wait_procs(list(started), timeout=5)[1]
    )
