"""Other threads: when they are tried, what comes of it, and a script that runs on them."""

from __future__ import annotations

import dataclasses
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
from uncork.core.base.record import replace
from uncork.core.documents.job import JobResult, ProcessJob, ProcessTrial
from uncork.core.documents.plan import INTRA_OP_THREADS_VARIABLE, Plan, PlanStep, Policy, Proof
from uncork.core.documents.plan_file import serialize_plan
from uncork.core.edits.edit import IntraOpThreads
from uncork.core.edits.step import JitCompile, LargerBatch, StepsPerExecution
from uncork.engine.commands.fresh_process import THREADS_TRIAL
from uncork.engine.process import worker_process as processes
from uncork.engine.process.worker_process import Script, run_worker
from uncork.verify.provers import handover as handed_over
from uncork.verify.provers.handover import FitHandover

BEFORE = workload_diagnosis(
    workload=replace(WORKLOAD, data_kind="numpy", pipeline_digest=""),
    measurement=measurement(16_000.0),
    breakdown={"input": 0.0, "host": 0.2, "step": 0.8, "unknown": 0.0},
)
PLAN = plan(before=BEFORE, after=None, machine=FOUR_CORES)


def nothing(event: Any) -> None:
    """Progress is of no interest."""


def tried(monkeypatch: Any, times: float, *, proof: str = "exact", **of: Any) -> Plan:
    made = replace(PLAN, **of)
    blocks = tuple(times * speed for speed in made.tuned.block_samples_per_s)
    measured = replace(
        made.tuned, samples_per_s=times * made.tuned.samples_per_s, block_samples_per_s=blocks
    )
    judged = Proof(kind=proof, passed=True, detail="set by the test")
    trial = ProcessTrial(measurement=measured, proof=judged)
    answer = JobResult(machine=FOUR_CORES, process_trial=trial)
    monkeypatch.setattr(processes, "run_worker", lambda *_, **__: answer)
    return THREADS_TRIAL.extend_plan(made, "handed_over", Script("train.py"), nothing)


def last(found: Plan) -> PlanStep:
    assert found.steps[-1].name == "intra_op_threads"
    return found.steps[-1]


def test_what_is_faster_and_proved_is_added_to_what_is_in_force(monkeypatch):
    found = tried(monkeypatch, 1.5)
    assert last(found).outcome == "kept"
    assert found.environment == {INTRA_OP_THREADS_VARIABLE: "1"}
    assert found.step_edits == PLAN.step_edits
    assert found.tuned.samples_per_s == pytest.approx(1.5 * PLAN.tuned.samples_per_s)


def test_the_guarantee_is_what_was_proved(monkeypatch):
    assert last(tried(monkeypatch, 1.5)).guarantee == "exact"
    assert last(tried(monkeypatch, 1.5, proof="rounding")).guarantee == "rounding"
    strict = tried(monkeypatch, 1.5, proof="rounding", policy=Policy(loosest_guarantee="exact"))
    assert last(strict).outcome == "rejected"
    assert last(strict).reason == "only rounding: set by the test"


def test_a_trifle_is_not_worth_it(monkeypatch):
    assert "not proven" in last(tried(monkeypatch, 1.1)).reason


@pytest.mark.parametrize(("slowed", "outcome"), [(1, "kept"), (2, "rejected")])
def test_one_block_that_something_else_slowed_is_no_reason(monkeypatch, slowed, outcome):
    speeds = (100.0, 104.0, 102.0, 130.0)
    tuned = replace(PLAN.tuned, samples_per_s=103.0, block_samples_per_s=speeds)
    made = replace(PLAN, tuned=tuned)
    theirs = (*[40.0] * slowed, *[150.0] * (4 - slowed))
    measured = replace(tuned, samples_per_s=150.0, block_samples_per_s=theirs)
    judged = Proof(kind="exact", passed=True, detail="set by the test")
    answer = JobResult(
        machine=FOUR_CORES, process_trial=ProcessTrial(measurement=measured, proof=judged)
    )
    monkeypatch.setattr(processes, "run_worker", lambda *_, **__: answer)
    found = THREADS_TRIAL.extend_plan(made, "handed_over", Script("train.py"), nothing)
    assert last(found).outcome == outcome
    assert last(found).measured.low == pytest.approx((150.0 if slowed == 1 else 40.0) / 104.0)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (JitCompile(), "XLA fuses"),
        (
            LargerBatch(batch_multiplier=2, learning_rate_multiplier=1.4),
            "differs from the original",
        ),
    ],
)
def test_plans_that_it_is_not_for(monkeypatch, edit, words):
    kept = next(step for step in STEPS if step.outcome == "kept")
    found = tried(monkeypatch, 1.5, steps=(replace(kept, edits=(edit,)),))
    assert last(found).outcome == "skipped"
    assert words in last(found).reason


TRAIN = """
import sys
import keras, numpy as np, tensorflow as tf

if sys.argv[1:]:
    tf.config.threading.set_intra_op_parallelism_threads(3)
keras.utils.set_random_seed(5)
x = np.random.default_rng(1).normal(size=(512, 8)).astype("float32")
y = x.sum(1, keepdims=True)
layers = [keras.layers.Dense(8, "tanh"), keras.layers.Dropout(0.1), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((8,)), *layers])
model.compile("adam", "mse", metrics=["mae"])
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(512).batch(16)
model.fit(data, epochs=2, verbose=0)
import os
print("trained on", os.environ.get("TF_NUM_INTRAOP_THREADS"))
"""


class Maker(PassThroughListener):
    """Leaves a plan, and what a tuning would hand over, for the first ``fit`` of a script."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fit(self, call: FitCall) -> Any:
        from uncork.engine.fit.fit_subject import FitSubject  # noqa: PLC0415 - imports TensorFlow

        with tempfile.TemporaryDirectory() as scratch:
            subject = FitSubject(call.model, call.arguments, call.index, call.at, scratch)
        grouped = StepsPerExecution(steps=4)
        handed = subject.record_handover(subject.original.with_step_edits((grouped,)), 0.0)
        assert handed is not None
        assert not handed.orders, "losses over orders were not asked for"
        handed.write(self._folder / "handed_over")
        before = workload_diagnosis(workload=subject.workload, stages=())
        kept = next(step for step in STEPS if step.outcome == "kept")
        edits = (grouped, IntraOpThreads(threads=1))
        step = replace(kept, name="intra_op_threads", edits=edits, guarantee="exact")
        made = plan(before=before, after=None, steps=(step,))
        (self._folder / "plan.json").write_bytes(serialize_plan(made_here(made)))
        raise StopScript


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_in_folder(
        tmp_path_factory.mktemp("threads"), TRAIN, "engine.commands.test_fresh_process_threads"
    )


def asked(folder: Path, monkeypatch: Any) -> ProcessTrial:
    monkeypatch.chdir(folder)
    job = ProcessJob(
        training_index=0,
        plan_path="plan.json",
        environment={INTRA_OP_THREADS_VARIABLE: "1"},
        handover_path=str(folder / "handed_over"),
    )
    return run_worker(job, Script("train.py"), nothing, quiet=True).process_trial


@pytest.mark.deep
@pytest.mark.slow
def test_the_same_training_is_proved_and_timed_there(made, monkeypatch):
    found = asked(made, monkeypatch)
    assert found.proof.passed, found.proof.detail
    assert found.proof.kind in ("exact", "rounding")
    assert len(found.measurement.block_samples_per_s) == 4


@pytest.mark.slow
def test_another_training_is_not(made, monkeypatch, tmp_path):
    """Which threads a process has says nothing of that: it is asked in this one."""
    from uncork.engine.fit.fit_subject import FitSubject  # noqa: PLC0415 - imports TensorFlow

    monkeypatch.setattr(sys, "argv", ["train.py"])
    names: dict[str, Any] = {}
    exec(TRAIN.partition("model.fit(")[0], names)
    arguments = {"x": names["data"], "epochs": 2, "verbose": 0}
    subject = FitSubject(names["model"], arguments, 0, "train.py:15", str(tmp_path))
    version = subject.original.with_step_edits((StepsPerExecution(steps=4),))
    handed = FitHandover.read(made / "handed_over")
    assert subject.prove_in_other_process(version, handed).passed
    other = [handed.order[1], handed.order[0], *handed.order[2:]]
    assert not subject.prove_in_other_process(
        version, dataclasses.replace(handed, order=other)
    ).passed
    monkeypatch.setattr(handed_over, "_HANDED_S", 0.0)
    assert len(subject.record_handover(subject.original, 0.0).order) == 5, (
        "slow steps: fewer of them"
    )
    refused = dataclasses.replace(handed, refusal_reason="too large")
    assert subject.prove_in_other_process(version, refused).detail == "too large"


@pytest.mark.slow
def test_the_script_runs_on_them(made):
    done = run_python("-m", "uncork", "run", "--plan", "plan.json", "train.py", cwd=made)
    assert (done.returncode, done.stdout.strip()) == (0, "trained on 1"), done.stderr
    assert "without the plan" not in done.stderr
    options = ("--allow-partial", "--plan", "plan.json")
    chosen = run_python("-m", "uncork", "run", *options, "train.py", "own", cwd=made)
    assert chosen.returncode == 0
    assert "runs each kernel on 3 threads" in chosen.stderr
    assert "without the plan, except for 1 thread(s) within a kernel" in chosen.stderr


@pytest.mark.slow
def test_the_user_s_own_choice_is_not_overruled(made, monkeypatch):
    monkeypatch.setenv(INTRA_OP_THREADS_VARIABLE, "2")
    done = run_python("-m", "uncork", "run", "--plan", "plan.json", "train.py", cwd=made)
    assert done.returncode != 0
    assert f"{INTRA_OP_THREADS_VARIABLE} is set to '2'" in done.stderr


if __name__ == "__main__":
    run_script(Path("train.py"), [], Maker(Path(sys.argv[1])))
