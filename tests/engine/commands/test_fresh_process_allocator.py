"""An allocator that gives nothing back: what comes of a trial, and a script that runs with it."""

from __future__ import annotations

import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from optimizations.situations import FOUR_CORES
from plan_files import made_here
from records import STEPS, WORKLOAD, measurement, plan, workload_diagnosis
from running import run_in_folder, run_python
from uncork.capture.base.listener import FitCall, PassThroughListener
from uncork.capture.base.stop import StopScript
from uncork.capture.script import run_script
from uncork.core.base.errors import EditRefused
from uncork.core.base.record import replace
from uncork.core.documents.job import JobResult, ProcessJob, ProcessTrial
from uncork.core.documents.plan import Plan, PlanStep, Proof
from uncork.core.documents.plan_file import serialize_plan
from uncork.core.edits.edit import KeepFreedMemory
from uncork.core.edits.step import DtypePolicy
from uncork.engine.commands.fresh_process import MEMORY_TRIAL
from uncork.engine.process import worker_process as processes
from uncork.engine.process.worker_process import Script, run_worker

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
SLOWED = replace(measurement(320.0), cpu_s_per_step=0.2, page_fault_s_per_step=0.08)
BEFORE = workload_diagnosis(workload=WORKLOAD, measurement=SLOWED)
PLAN = plan(before=BEFORE, after=None, machine=FOUR_CORES)


def nothing(event: Any) -> None:
    """Progress is of no interest."""


def tried(monkeypatch: Any, times: float, *, peak: float = 1e9, **of: Any) -> Plan:
    made = replace(PLAN, **of)
    blocks = tuple(times * speed for speed in made.tuned.block_samples_per_s)
    measured = replace(
        made.tuned, samples_per_s=times * made.tuned.samples_per_s, block_samples_per_s=blocks
    )
    judged = Proof(kind="exact", passed=True, detail="set by the test")
    trial = ProcessTrial(measurement=measured, proof=judged, peak_memory_bytes=int(peak))
    answer = JobResult(machine=FOUR_CORES, process_trial=trial)
    monkeypatch.setattr(processes, "run_worker", lambda *_, **__: answer)
    return MEMORY_TRIAL.extend_plan(made, "handed_over", Script("train.py"), nothing)


def last(found: Plan) -> PlanStep:
    assert found.steps[-1].name == "keep_freed_memory"
    return found.steps[-1]


def test_what_is_faster_and_proved_is_added_to_what_is_in_force(monkeypatch):
    found = tried(monkeypatch, 1.5)
    assert last(found).outcome == "kept"
    assert last(found).predicted == pytest.approx(0.2 / 0.12)
    assert found.keeps_freed_memory
    assert found.environment == {}
    assert found.step_edits == PLAN.step_edits


def test_a_plan_in_another_precision_keeps_its_memory_too(monkeypatch):
    kept = next(step for step in STEPS if step.outcome == "kept")
    low = replace(kept, edits=(DtypePolicy(policy="mixed_bfloat16"),), guarantee="precision")
    assert last(tried(monkeypatch, 1.5, steps=(low,))).outcome == "kept"


def test_a_process_that_would_take_nearly_all_memory_is_not_started_so(monkeypatch):
    found = last(tried(monkeypatch, 1.5, peak=0.9 * FOUR_CORES.memory_bytes))
    assert found.outcome == "rejected"
    assert found.reason == "it takes 7.7 GB of memory, of 8.6 GB"


def test_a_process_that_was_not_started_so_is_told_how(monkeypatch):
    from uncork.engine.apply.machine_match import check_memory  # noqa: PLC0415 - imports TensorFlow

    found = tried(monkeypatch, 1.5)
    with pytest.raises(EditRefused, match="start the script with 'uncork run'"):
        check_memory(found)
    check_memory(PLAN)


TRAIN = """
import keras, numpy as np, tensorflow as tf

keras.utils.set_random_seed(5)
x = np.random.default_rng(1).normal(size=(2048, 8)).astype("float32")
y = x.sum(1, keepdims=True)
# 36 MB for a batch: above 32 MB glibc gives each piece back, whatever it was told before.
layers = [keras.layers.Dense(8704, "tanh"), keras.layers.Dropout(0.1), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((8,)), *layers])
model.compile("adam", "mse", metrics=["mae"])
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(2048, seed=3).batch(1024)
model.fit(data, epochs=2, verbose=0)
import psutil
freed = np.ones(32 * 2**20)
held = psutil.Process().memory_info().rss
del freed
given_back = held - psutil.Process().memory_info().rss
print("MB that stay", 256 - given_back // 2**20)
"""


class Maker(PassThroughListener):
    """Leaves a plan, and what a tuning would hand over, for the first ``fit`` of a script."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fit(self, call: FitCall) -> Any:
        from uncork.engine.fit.fit_subject import FitSubject  # noqa: PLC0415 - likewise
        from uncork.verify.provers import handover as handed_over  # noqa: PLC0415 - imports TensorFlow

        with tempfile.TemporaryDirectory() as scratch:
            subject = FitSubject(call.model, call.arguments, call.index, call.at, scratch)
        handed_over._HANDED_S = 0.0  # the fewest steps
        handed = subject.record_handover(subject.original, 0.0)
        assert handed is not None
        handed.write(self._folder / "handed_over")
        before = workload_diagnosis(workload=subject.workload, stages=())
        kept = next(step for step in STEPS if step.outcome == "kept")
        edits = (KeepFreedMemory(),)
        step = replace(kept, name="keep_freed_memory", edits=edits, guarantee="exact")
        made = plan(before=before, after=None, steps=(step,))
        (self._folder / "plan.json").write_bytes(serialize_plan(made_here(made)))
        raise StopScript


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_in_folder(
        tmp_path_factory.mktemp("memory"), TRAIN, "engine.commands.test_fresh_process_allocator"
    )


@pytest.mark.deep
@glibc
@pytest.mark.slow
def test_the_same_training_is_proved_and_timed_there(made, monkeypatch):
    monkeypatch.chdir(made)
    handed = str(made / "handed_over")
    job = ProcessJob(training_index=0, plan_path="plan.json", handover_path=handed)
    found = run_worker(job, Script("train.py"), nothing, quiet=True).process_trial
    assert found.proof.passed, found.proof.detail
    assert found.proof.kind == "exact"
    assert found.peak_memory_bytes > 50e6
    measured = found.measurement
    assert measured.page_fault_s_per_step < 0.1 * measured.cpu_s_per_step


def megabytes(said: str) -> int:
    """Of 256 that were freed, those which the process keeps."""
    return int(said.rpartition(" ")[2])


@glibc
@pytest.mark.slow
def test_the_script_keeps_what_it_frees(made):
    plain = run_python("train.py", cwd=made)
    done = run_python("-m", "uncork", "run", "--plan", "plan.json", "train.py", cwd=made)
    assert done.returncode == 0, done.stderr
    assert "without the plan" not in done.stderr
    assert megabytes(plain.stdout) <= 20
    assert megabytes(done.stdout) >= 200


@glibc
@pytest.mark.slow
def test_the_user_s_own_choice_is_not_overruled(made, monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    done = run_python("-m", "uncork", "run", "--plan", "plan.json", "train.py", cwd=made)
    assert done.returncode != 0
    assert "the allocator of this process is glibc, set by MALLOC_ARENA_MAX" in done.stderr


if __name__ == "__main__":
    run_script(Path("train.py"), [], Maker(Path(sys.argv[1])))
