"""A training that does not fit: how much of it does, its proof, and what is said where none is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.base.errors import OutOfMemory
from uncork.core.base.journal import Event, Journal
from uncork.core.documents.job import DiagnoseJob, JobResult, TuneJob
from uncork.core.documents.plan import Policy
from uncork.core.edits.step import MicroBatches, StepsPerExecution
from uncork.engine.commands import oom_retry as too_large
from uncork.engine.commands.oom_retry import run_diagnosis, run_tuning
from uncork.engine.fit.fit_subject import FitSubject
from uncork.engine.process.worker_failure import WorkerFailed
from uncork.engine.process.worker_process import Script
from uncork.engine.tune import memory_model as room
from uncork.engine.tune.memory_model import is_out_of_memory, out_of_memory_message
from uncork.engine.tune.memory_strategies import MicroBatchStrategy
from uncork.engine.worker.job_listener import JobListener
from uncork.measure.machine.probe import probe_host
from uncork.training.run.fit_runner import FitRunner
from uncork.training.state.snapshot import read_weights

ROWS = np.random.default_rng(0).normal(size=(128, 8)).astype("float32")
SAID = "the training at train.py:9 runs out of memory: no memory"
MOST = 1 << 30


def subject(tmp_path: Path, *layers: Any, **compiled: Any) -> FitSubject:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dense(1)])
    model.compile(**{"optimizer": "adam", "loss": "mse", **compiled})
    given = {"x": ROWS, "y": ROWS[:, :1], "batch_size": 32, "epochs": 3}
    return FitSubject(model, given, 0, "train.py:9", str(tmp_path))


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Memory for ten rows: each takes a tenth of it."""
    asked: list[int] = []

    def taken(memory: Any, run: Any) -> int | None:
        runner: FitRunner = run.__self__.runner
        batch = next(iter(runner.feed.dataset))
        edits = [e for e in runner.settings.edits if isinstance(e, MicroBatches)]
        rows = -(-batch[0].shape[0] // (edits[0].parts if edits else 1))
        asked.append(rows)
        run()
        return rows * MOST // 10 if rows <= 10 else None

    monkeypatch.setattr(room.MemoryMeter, "measure_peak", taken)
    monkeypatch.setattr(room, "device_limit_bytes", lambda device: MOST * 10 / 8)
    monkeypatch.setattr(room, "device_peak_bytes", lambda device: 0)
    return asked


def test_the_fewest_parts_that_fit_are_found_and_proved(tmp_path: Path, little: list[int]) -> None:
    found = subject(tmp_path)
    before = read_weights(found.model)
    told, step = MicroBatchStrategy(found, 2, SAID, Policy(), Journal(None)).apply()
    assert told.parts == 4  # of 8 rows each
    assert little == [1, 4, 8]  # 16 rows would take more than there is, and were not tried
    assert step.outcome == "kept"
    assert step.edits == (MicroBatches(parts=4),)
    assert step.proof is not None
    assert step.proof.kind == step.guarantee == "rounding"
    assert "with 3 examples each" in step.proof.detail
    assert found.original.step_edits == step.edits
    assert all(np.array_equal(a, b) for a, b in zip(before, read_weights(found.model), strict=True))
    # What follows is proved against the training in parts.
    grouped = found.original.with_step_edits((StepsPerExecution(steps=2),))
    assert found.prove_step(grouped, "exact", 10.0).passed
    assert found.measure_batch_sizes(grouped, 1.0) == ()


def test_dropout_is_left_out_of_the_proof_and_the_promise_is_weaker(
    tmp_path: Path, little: list[int]
) -> None:
    found = subject(tmp_path, keras.layers.Dropout(0.5))
    _, step = MicroBatchStrategy(found, 2, SAID, Policy(), Journal(None)).apply()
    assert step.guarantee == "resampled"
    assert step.proof is not None
    assert "without dropout" in step.proof.detail
    again = subject(tmp_path, keras.layers.Dropout(0.5))
    policy = Policy(loosest_guarantee="rounding")
    with pytest.raises(OutOfMemory, match="the policy allows rounding"):
        MicroBatchStrategy(again, 2, SAID, policy, Journal(None)).apply()


def across(y: Any, p: Any) -> Any:
    """Of no example alone."""
    return tf.square(y - p) / (1.0 + tf.math.reduce_std(p))


def test_a_loss_that_looks_across_the_batch_is_not_proved(
    tmp_path: Path, little: list[int]
) -> None:
    with pytest.raises(OutOfMemory, match="not proven to be the same training"):
        MicroBatchStrategy(subject(tmp_path, loss=across), 2, SAID, Policy(), Journal(None)).apply()


def test_what_cannot_be_cut_is_told_with_its_reason(tmp_path: Path) -> None:
    found = subject(tmp_path, keras.layers.BatchNormalization(name="norm"))
    with pytest.raises(OutOfMemory, match=r"'norm' .* over the whole batch") as refused:
        MicroBatchStrategy(found, 2, SAID, Policy(), Journal(None)).apply()
    assert SAID in refused.value.received
    assert "a smaller batch" in refused.value.remedy


def test_nor_is_there_memory_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room.MemoryMeter, "measure_peak", lambda memory, run: None)
    with pytest.raises(OutOfMemory, match="a single example"):
        MicroBatchStrategy(subject(tmp_path), 2, SAID, Policy(), Journal(None)).apply()


def test_errors_of_memory_are_told_from_others() -> None:
    message = "Graph error\n\nOOM when allocating tensor with shape[9,9] and type float on /job:x"
    error = tf.errors.ResourceExhaustedError(None, None, message)
    assert is_out_of_memory(error)
    assert (
        out_of_memory_message(error) == "OOM when allocating tensor with shape[9,9] and type float"
    )
    one_dnn = "Compute received an exception:Status:1, message: could not create a memory object"
    assert is_out_of_memory(tf.errors.AbortedError(None, None, one_dnn))
    assert not is_out_of_memory(tf.errors.AbortedError(None, None, "Compute received no exception"))
    assert not is_out_of_memory(tf.errors.InvalidArgumentError(None, None, "OOM when allocating"))


SCRIPT = Script("train.py")
FITS = JobResult(machine=probe_host())
TOO_LARGE = JobResult(machine=probe_host(), out_of_memory_error=SAID)


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> tuple[list[TuneJob], list[Any]]:
    """What is asked of each process, and what comes of it, to be filled."""
    asked: list[TuneJob] = []
    answers: list[Any] = []

    def run_child(job: TuneJob, script: Script, follow: Any) -> JobResult:
        asked.append(job)
        follow(Event(kind="phase", text="measuring train.py:9 as it runs"))
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(too_large, "run_worker", run_child)
    return asked, answers


def test_a_training_that_fits_is_run_once(children: Any) -> None:
    asked, answers = children
    answers += [FITS]
    assert run_tuning(TuneJob(), SCRIPT, lambda event: None) is FITS
    assert [job.min_parts for job in asked] == [0]


def test_one_that_does_not_is_tried_in_parts_and_in_more_where_it_was_killed(children: Any) -> None:
    asked, answers = children
    answers += [TOO_LARGE, WorkerFailed(1, is_killed=True), FITS]
    told: list[Event] = []
    assert run_tuning(TuneJob(), SCRIPT, told.append) is FITS
    assert [job.min_parts for job in asked] == [0, 2, 16]
    assert asked[2].out_of_memory_error == SAID
    assert "trying micro-batches" in told[1].text


@pytest.mark.parametrize("answer", [TOO_LARGE, WorkerFailed(1, is_killed=True)])
@pytest.mark.parametrize("verb", [run_diagnosis, run_tuning])
def test_one_that_was_seen_to_run_is_not_said_to_be_too_large(
    verb: Any, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is what is kept and compared beside it that there is no memory for."""
    asked: list[TuneJob] = []

    def run_child(job: TuneJob, script: Script, follow: Any) -> JobResult:
        asked.append(job)
        follow(Event(kind="phase", text="measuring train.py:9 as it runs"))
        follow(Event(kind="measured", text="as it is", samples_per_s=29.0))
        follow(Event(kind="phase", text="measuring the step in bfloat16"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(too_large, "run_worker", run_child)
    with pytest.raises(OutOfMemory, match="the training itself runs") as refused:
        verb(TuneJob(), SCRIPT, lambda event: None)
    assert "copies of its weights" in refused.value.expected
    assert len(asked) == 1


def test_in_parts_it_may_not_fit_either(children: Any) -> None:
    _, answers = children
    answers += [TOO_LARGE] * 3
    with pytest.raises(OutOfMemory, match="it does so with 16 micro-batches"):
        run_tuning(TuneJob(), SCRIPT, lambda event: None)


def test_a_script_that_fails_is_no_training_that_is_too_large(children: Any) -> None:
    _, answers = children
    answers += [WorkerFailed(1, "ValueError")]
    with pytest.raises(WorkerFailed):
        run_tuning(TuneJob(), SCRIPT, lambda event: None)


def test_a_diagnosis_says_what_helps(children: Any) -> None:
    _, answers = children
    answers += [TOO_LARGE]
    with pytest.raises(OutOfMemory) as refused:
        run_diagnosis(DiagnoseJob(), SCRIPT, lambda event: None)
    assert refused.value.received == SAID
    assert "uncork tune train.py" in refused.value.remedy


class Trying(JobListener):
    """What is measured after the proof takes more than it did."""

    def run_on(self, subject: Any, machine: Any) -> JobResult:
        subject.require_edits((MicroBatches(parts=2),))
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor [9]")


def test_parts_that_do_not_fit_in_the_end_are_tried_smaller(tmp_path: Path) -> None:
    trial = Trying(TuneJob(min_parts=2), Journal(), str(tmp_path))
    trial._work(subject(tmp_path))
    assert trial.result is not None
    assert "OOM when allocating tensor [9]" in trial.result.out_of_memory_error


class Failing(JobListener):
    """Nothing can be told of the training."""

    looked = 0

    def run_on(self, subject: Any, machine: Any) -> JobResult:
        self.looked += 1
        raise ValueError("no shape")


def test_a_script_that_goes_on_behind_a_failed_look_is_looked_at_again(tmp_path: Path) -> None:
    trial = Failing(DiagnoseJob(), Journal(), str(tmp_path))
    for _ in range(2):
        with pytest.raises(ValueError, match="no shape"):
            trial._work(subject(tmp_path))
        assert not trial._working
    assert trial.looked == 2
