"""``uncork diff``: what it refuses, what it compares, and one plan as a patch that is run."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from records import WORKLOAD, plan
from running import Run, Write, environment, run_python
from uncork.core.base.errors import PatchRefused, PlanRefused, WrongUse
from uncork.core.base.record import digest, replace
from uncork.core.documents.job import CheckJob, JobResult
from uncork.core.documents.plan import Plan
from uncork.core.documents.plan_file import parse_plan
from uncork.core.documents.workload import Workload
from uncork.core.edits.step import DtypePolicy, JitCompile, StepsPerExecution
from uncork.engine.commands import diff as patches
from uncork.engine.process import worker_process as processes
from uncork.engine.process.worker_failure import WorkerFailed
from uncork.engine.process.worker_process import Script

TEXT = b"model.compile('adam')\nmodel.fit(data)\n"
EDITS = (StepsPerExecution(steps=8), JitCompile())
TRAINED = replace(WORKLOAD, jit_compile=True, steps_per_execution=8)


def made_for(text: bytes, **changes: Any) -> Plan:
    before = replace(
        plan().before, workload=replace(WORKLOAD, at="train.py:2", step_setup_at="train.py:1")
    )
    kept = replace(plan().accepted_steps[0], name="both", edits=EDITS)
    fields = {"script_digest": digest(text), "before": before, "steps": (kept,), **changes}
    return plan(**fields)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_bytes(TEXT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_plan_for_this_very_script_is_a_patch(folder: Path) -> None:
    patch = patches.patch_from_plan(made_for(TEXT))
    assert b"model.compile('adam', steps_per_execution=8, jit_compile=True)" in patch.after
    assert (folder / "train.py").read_bytes() == TEXT, "the user's file is never written"


def test_another_script_is_refused_with_what_to_type(folder: Path) -> None:
    (folder / "train.py").write_bytes(b"# new\n" + TEXT)
    with pytest.raises(PlanRefused, match="has changed since the tuning") as refused:
        patches.patch_from_plan(made_for(TEXT))
    assert "uncork tune train.py" in refused.value.remedy


def test_a_plan_of_a_notebook_and_one_of_another_folder_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PlanRefused, match="without a script"):
        patches.patch_from_plan(made_for(TEXT, script_digest=""))
    monkeypatch.chdir("/")
    with pytest.raises(WrongUse, match=r"cannot read train\.py") as refused:
        patches.patch_from_plan(made_for(TEXT))
    assert "run the command in the folder" in refused.value.remedy


def test_without_libcst_it_is_said_how_to_get_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for ask in (
        lambda: patches.patch_from_plan(made_for(TEXT)),
        lambda: patches.patch_from_script(Path("t.py")),
    ):
        with pytest.raises(WrongUse, match="LibCST is missing") as refused:
            ask()
        assert "uncork[diff]" in refused.value.remedy


def ran(monkeypatch: pytest.MonkeyPatch, patched: Workload | Exception) -> list[CheckJob]:
    """Stands in for the two processes: what the patched one trains."""
    jobs: list[CheckJob] = []

    def run_child(
        job: CheckJob, script: Script, follow: object, *, quiet: bool, prepared: None
    ) -> JobResult:
        jobs.append(job)
        assert script.args == ("9",)
        if job.source_path is None:
            assert job.plan_path is not None
            assert parse_plan(Path(job.plan_path).read_bytes()).edits == EDITS
            return JobResult(machine=plan().machine, trained_workload=WORKLOAD)
        assert b"jit_compile=True" in Path(job.source_path).read_bytes()
        if isinstance(patched, Exception):
            raise patched
        return JobResult(machine=plan().machine, trained_workload=patched)

    monkeypatch.setattr(processes, "run_worker", run_child)
    return jobs


def check() -> None:
    made = made_for(TEXT)
    patches.check_patch(
        patches.patch_from_plan(made), made, Script("train.py", ("9",)), lambda event: None
    )


def test_a_patch_that_trains_as_the_plan_does_passes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = ran(monkeypatch, replace(TRAINED, at="train.py:9", step_setup_at="train.py:8"))
    check()
    assert [type(job) for job in jobs] == [CheckJob, CheckJob]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"jit_compile": False}, "jit_compile: True with the plan, False with the patch"),
        ({"steps_per_execution": 1}, "steps_per_execution: 8 with the plan, 1 with the patch"),
        ({"pipeline_digest": "other"}, "input pipeline"),
        ({"model": replace(WORKLOAD.model, dtype_policies=("mixed_bfloat16",))}, "model: "),
    ],
)
def test_a_patch_that_lies_is_caught(
    changes: dict[str, Any], said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(monkeypatch, replace(TRAINED, **changes))
    with pytest.raises(PatchRefused, match=said):
        check()


def test_a_patched_script_that_fails_is_told_with_what_it_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(monkeypatch, WorkerFailed(1, "NameError: name 'tf' is not defined"))
    with pytest.raises(PatchRefused, match=r"with the patch: .*NameError") as refused:
        check()
    assert "ARGS" in refused.value.remedy


def test_a_scaled_optimizer_is_what_keras_makes_of_float16() -> None:
    """Of the plan it is none: the model keeps the one that it was compiled with."""
    edit = DtypePolicy(policy="mixed_float16")
    assert WORKLOAD.model is not None
    model = replace(
        WORKLOAD.model, dtype_policies=("mixed_float16",), optimizer="LossScaleOptimizer"
    )
    expected, found = (
        JobResult(machine=plan().machine, trained_workload=each)
        for each in (WORKLOAD, replace(WORKLOAD, model=model))
    )
    assert list(patches._differences(expected, found, (edit,), has_equal_batches=False)) == []


BATCHES = (*(f"batch {n}" for n in range(8)), "end", *(f"batch {n}" for n in range(8)), "end")


@pytest.mark.parametrize(
    ("ours", "theirs", "equal"),
    [
        (BATCHES, BATCHES, 16),
        (BATCHES, (*BATCHES[:-2], "other", "end"), 0),
        (BATCHES, BATCHES[:-3], 0),
        ((), (), 0),
        (("end", "end"), ("end", "end"), 0),
        (("same", "same", "end", "end"), ("same", "same", "end", "end"), 0),
    ],
)
def test_batches_are_equal_only_where_some_were_seen(
    ours: tuple[str, ...], theirs: tuple[str, ...], equal: int
) -> None:
    """Where a function is cut between other ops than in the plan."""
    expected, found = (
        JobResult(machine=plan().machine, trained_workload=work, batch_digests=digests)
        for work, digests in ((WORKLOAD, ours), (replace(WORKLOAD, pipeline_digest="b"), theirs))
    )
    assert patches._equal_batches(expected, found) == equal
    same_ops = replace(found, trained_workload=WORKLOAD)
    assert patches._equal_batches(expected, same_ops) == 0, "no need to look at them"
    differing = patches._differences(expected, found, (), has_equal_batches=equal > 0)
    assert bool(list(differing)) == (equal == 0)


def test_other_seeds_are_other_numbers() -> None:
    expected, found = (
        JobResult(machine=plan().machine, trained_workload=WORKLOAD, draw_seeds=seeds)
        for seeds in (("1 0", "1 1"), ("1 0", "1 2"))
    )
    (told,) = patches._differences(expected, found, (), has_equal_batches=True)
    assert "draw other numbers" in told


SCRIPT = """\
import sys

import keras
import tensorflow as tf


def load(x):
    if x > 3:  # AutoGraph reads these lines from the file that it thinks they are in
        x = x + 1
    return tf.cast(x, tf.float32)[None], tf.cast(x, tf.float32)


def augment(x, y):
    x = tf.exp(-x)
    x = x + tf.random.uniform([])
    return x, y


data = tf.data.Dataset.range(64).map(load).shuffle(8).map(augment).batch(int(sys.argv[1]))
model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile(
    optimizer="sgd",
    loss="mse",
)
model.fit(data, epochs=2, verbose=0)
"""


@pytest.mark.slow
def test_a_patch_is_run_and_trains_as_the_plan_does(
    tmp_path: Path, write: Write, uncork: Run
) -> None:
    write(SCRIPT)
    here = Path(__file__)
    paths = os.pathsep.join([str(here.parents[2]), *sys.path])
    env = {**environment(tmp_path), "PYTHONPATH": paths}
    arguments = here.with_name("patch_maker.py"), "plan.json", "train.py", 8
    maker = run_python(*arguments, cwd=tmp_path, env=env)
    assert maker.returncode == 0, maker.stderr
    got = uncork("diff", "--check", "plan.json", 8, env=environment(tmp_path))
    assert got.returncode == 0, got.stderr
    assert "trains the same pipeline, model and settings" in got.stderr
    assert "not in the patch: flat_updates" in got.stderr
    assert (tmp_path / "train.py").read_text() == SCRIPT
    for wanted in (
        "mixed_bfloat16",
        "jit_compile=True",
        ".map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)",
        "+    .cache()\n+    .shuffle(8)\n+    .map(augment_random)",
    ):
        assert wanted in got.stdout
    applied = subprocess.run(
        ["git", "apply", "-p0"], input=got.stdout, text=True, cwd=tmp_path, check=False
    )
    assert applied.returncode == 0
    compile((tmp_path / "train.py").read_text(), "train.py", "exec")
