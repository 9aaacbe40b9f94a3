"""Another backend of Keras's: when it is tried, what comes of it, and a script that runs on it."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from optimizations.situations import FOUR_CORES
from plan_files import made_here
from records import STEPS, WORKLOAD, plan, workload_diagnosis
from running import run_in_folder, run_python
from uncork.capture.base.listener import FitCall, PassThroughListener
from uncork.capture.base.stop import StopScript
from uncork.capture.script import run_script
from uncork.core.base.measurement import Measurement
from uncork.core.base.record import replace
from uncork.core.documents.job import BackendJob, ConfirmJob, JobResult, PlanJob, ProcessTrial
from uncork.core.documents.plan import NO_TIME_REASON, Plan, PlanStep, Policy, Proof
from uncork.core.documents.plan_file import serialize_plan
from uncork.core.edits.edit import KerasBackend
from uncork.engine.commands.fresh_process import BACKEND_TRIAL
from uncork.engine.process import worker_process as processes
from uncork.engine.process.worker_failure import WorkerFailed
from uncork.engine.process.worker_process import Script, run_worker
from uncork.measure.machine.probe import jax_version
from uncork.pycode.syntax.backend_portability import tensorflow_only_reason
from uncork.verify.provers.handover import FitHandover

BEFORE = workload_diagnosis(workload=replace(WORKLOAD, data_kind="numpy", pipeline_digest=""))
PLAN = plan(before=BEFORE, after=None, machine=FOUR_CORES)


def nothing(event: Any) -> None:
    """Progress is of no interest."""


def faster(times: float) -> Measurement:
    speeds = tuple(times * speed for speed in PLAN.tuned.block_samples_per_s)
    return replace(
        PLAN.tuned, samples_per_s=times * PLAN.tuned.samples_per_s, block_samples_per_s=speeds
    )


def trial(times: float, *, passed: bool = True) -> Callable[..., JobResult]:
    proof = Proof(kind="resampled", passed=passed, detail="set by the test")
    found = ProcessTrial(measurement=faster(times), proof=proof)
    return lambda *_, **__: JobResult(machine=FOUR_CORES, process_trial=found)


@pytest.fixture
def script(tmp_path: Path) -> Script:
    path = tmp_path / "train.py"
    path.write_text("import keras\n")
    return Script(str(path))


def tried(monkeypatch: Any, script: Script, answer: Callable[..., JobResult], **of: Any) -> Plan:
    monkeypatch.setattr(processes, "run_worker", answer)
    return BACKEND_TRIAL.extend_plan(replace(PLAN, **of), "handed_over", script, nothing)


def last(found: Plan) -> PlanStep:
    assert found.steps[-1].name == "keras_backend"
    return found.steps[-1]


def test_what_is_faster_and_proved_takes_the_place_of_the_steps_of_tensorflow(monkeypatch, script):
    found = tried(monkeypatch, script, trial(3.0))
    assert last(found).outcome == "kept"
    assert last(found).measured.ratio == pytest.approx(3.0)
    assert found.environment == {"KERAS_BACKEND": "jax"}
    assert found.step_edits == ()
    assert found.pipeline_edits == PLAN.pipeline_edits
    given_up = [s.name for s in found.steps if "until keras_backend was faster" in s.reason]
    assert given_up == ["steps_per_execution"]
    assert found.ceiling_samples_per_s == 0.0


@pytest.mark.parametrize(
    ("answer", "words"),
    [(trial(1.05), "not proven"), (trial(3.0, passed=False), "not proven: set by the test")],
)
def test_what_is_not_leaves_the_plan_as_it_was(monkeypatch, script, answer, words):
    found = tried(monkeypatch, script, answer)
    assert last(found).outcome == "rejected"
    assert words in last(found).reason
    assert found.steps[:-1] == PLAN.steps
    assert found.environment == {}


def test_a_script_that_does_not_run_there_says_so(monkeypatch, script):
    def fails(*_: Any, **__: Any) -> JobResult:
        raise WorkerFailed(3, "AttributeError: no attribute 'numpy'")

    assert "no attribute" in last(tried(monkeypatch, script, fails)).reason


def test_ctrl_c_ends_it(monkeypatch, script):
    def interrupted(*_: Any, **__: Any) -> JobResult:
        return JobResult(machine=FOUR_CORES, is_interrupted=True)

    with pytest.raises(KeyboardInterrupt):
        tried(monkeypatch, script, interrupted)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"machine": replace(FOUR_CORES, jax="")}, "JAX is not installed"),
        ({"policy": Policy(loosest_guarantee="rounding")}, "promises resampled"),
    ],
)
def test_where_it_is_not_tried(monkeypatch, script, changes, words):
    found = tried(monkeypatch, script, trial(3.0), **changes)
    assert last(found).outcome == "skipped"
    assert words in last(found).reason


def test_without_what_the_tuning_leaves_there_is_nothing_to_compare(script):
    assert last(BACKEND_TRIAL.extend_plan(PLAN, None, script, nothing)).reason == NO_TIME_REASON


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "import tensorflow as tf\nwith tf.GradientTape() as tape: pass",
            "train.py:2 uses tf.Grad",
        ),
        ("print(model(x).numpy())", ".numpy()"),
        ("model.export('served')", ".export()"),
        ("import os\nos.environ['KERAS_BACKEND'] = 'tensorflow'", "chooses the backend itself"),
        ("import beside", "beside.py:1 uses tf.function"),
        ("from beside import step", "beside.py:1 uses tf.function"),
        ("from package.inner import step", "inner.py:1 uses tf.GradientTape"),
        ("import package.again", "inner.py:1 uses tf.GradientTape"),
        ("model.fit(x, y)\nother.fit(x, y)", "calls fit in 2 places"),
        (
            "from sklearn.preprocessing import StandardScaler as S\ns = S()\ns.fit(x)\n"
            "S().fit(x)\nmodel.fit(x, y)",
            "",
        ),
        ("for fold in folds:\n    model.fit(*fold)", ""),
        ("import tensorflow as tf\ndata = tf.data.Dataset.range(3)\ntf.random.set_seed(1)", ""),
        ("this is no Python", ""),
    ],
)
def test_what_asks_for_tensorflow_itself_is_seen(tmp_path, text, words):
    (tmp_path / "beside.py").write_text("step = tf.function(print)\n")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "again.py").write_text("from . import inner\nfrom .again import step\n")
    (package / "inner.py").write_text("from tensorflow import GradientTape\n")
    (tmp_path / "train.py").write_text(text)
    found = tensorflow_only_reason(tmp_path / "train.py")
    assert words in found
    assert bool(words) == bool(found)


TRAIN = """
import sys
import keras, numpy as np, tensorflow as tf

keras.utils.set_random_seed(5)
x = np.random.default_rng(1).normal(size=(512, 8)).astype("float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(512, seed=2).batch(16)
model.fit(data, epochs=2, verbose=0, validation_data=(x, y))
print("trained on", keras.backend.backend())
if sys.argv[1:]:
    raise ValueError("after the training")
"""


class Maker(PassThroughListener):
    """Leaves a plan, and what a tuning would hand over, for the first ``fit`` of a script."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fit(self, call: FitCall) -> Any:
        from uncork.engine.fit.fit_subject import FitSubject  # noqa: PLC0415 - likewise
        from uncork.verify.provers import data_orders  # noqa: PLC0415 - imports TensorFlow

        data_orders._STEPS = (200, 200)  # however busy the machine is

        with tempfile.TemporaryDirectory() as scratch:
            subject = FitSubject(call.model, call.arguments, call.index, call.at, scratch)
        handed = subject.record_handover(subject.original, 4.0)
        assert handed is not None
        handed.write(self._folder / "handed_over")
        before = workload_diagnosis(workload=subject.workload, stages=())
        kept = next(step for step in STEPS if step.outcome == "kept")
        edits = (KerasBackend(backend="jax", backend_version=jax_version()),)
        step = replace(kept, name="keras_backend", edits=edits, guarantee="resampled")
        made = plan(before=before, after=None, steps=(step,))
        (self._folder / "plan.json").write_bytes(serialize_plan(made_here(made)))
        raise StopScript


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    release = tuple(int(part) for part in metadata.version("keras").split(".")[:2])
    if release < (3, 10) and not hasattr(pytest.importorskip("jax"), "spmd_mode"):
        pytest.skip("Keras before 3.10 wants an older JAX")
    return run_in_folder(
        tmp_path_factory.mktemp("jax"), TRAIN, "engine.commands.test_fresh_process_backend"
    )


def asked(
    folder: Path, monkeypatch: Any, job_type: type[PlanJob] = BackendJob, **fields: Any
) -> JobResult:
    monkeypatch.chdir(folder)
    environment = {"KERAS_BACKEND": "jax"}
    job = job_type(training_index=0, plan_path="plan.json", environment=environment, **fields)
    return run_worker(job, Script("train.py"), nothing, quiet=True)


@pytest.mark.deep
@pytest.mark.slow
def test_the_same_training_is_proved_and_timed_there(made, monkeypatch):
    found = asked(made, monkeypatch, handover_path=str(made / "handed_over")).process_trial
    assert found.proof.passed, found.proof.detail
    assert found.proof.kind == "resampled"
    assert found.measurement.samples_per_s > 0
    assert len(found.measurement.block_samples_per_s) == 4


@pytest.mark.deep
@pytest.mark.slow
def test_another_training_is_not(made):
    """Whatever backend it is asked on: it is this process's."""
    from uncork.engine.worker.backend_job import prove_backend  # noqa: PLC0415 - imports Keras

    names: dict[str, Any] = {}
    exec(TRAIN.partition("model.fit(")[0], names)
    handed = FitHandover.read(made / "handed_over")
    assert prove_backend(names["model"], handed).passed
    flatter = [tuple(0.8 * loss for loss in losses) for losses in handed.losses]
    assert not prove_backend(names["model"], dataclasses.replace(handed, losses=flatter)).passed


@pytest.mark.deep
@pytest.mark.slow
def test_a_plan_is_confirmed_there(made, monkeypatch):
    found = asked(made, monkeypatch, ConfirmJob).confirmation
    assert found.measurement.samples_per_s > 0
    assert found.first_epoch_s > 0


@pytest.mark.slow
def test_the_script_runs_on_it(made):
    done = run_python("-m", "uncork", "run", "--plan", "plan.json", "train.py", cwd=made)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "trained on jax"
    plain = run_python("-m", "uncork", "run", "--no-plan", "train.py", cwd=made)
    assert plain.stdout.strip() == "trained on tensorflow"


@pytest.mark.deep
@pytest.mark.slow
def test_what_was_trained_is_saved_where_the_rest_of_the_script_fails(made):
    done = run_python("-m", "uncork", "run", "--plan", "plan.json", "train.py", "fail", cwd=made)
    assert done.returncode != 0
    assert "ValueError: after the training" in done.stderr
    (saved,) = made.glob("uncork-rescued-*.weights.h5")
    assert saved.name in done.stderr
    assert saved.stat().st_size > 1000
    saved.unlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Dense(8, ", "Dense(9, ", "number of weights"),
        ("import sys\n", "import os, sys\nos.environ['KERAS_BACKEND'] = 'tensorflow'\n", "runs on"),
    ],
    ids=["another model", "its own choice"],
)
def test_a_plan_that_does_not_fit_ends_it_before_the_training(made, old, new, words):
    (made / "other.py").write_text(TRAIN.replace(old, new, 1))
    done = run_python("-m", "uncork", "run", "--plan", "plan.json", "other.py", cwd=made)
    assert done.returncode != 0
    assert words in done.stderr
    assert "trained on" not in done.stdout


@pytest.mark.slow
def test_the_user_s_own_choice_of_a_backend_is_not_overruled(made, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    done = run_python("-m", "uncork", "run", "--plan", "plan.json", "train.py", cwd=made)
    assert done.returncode != 0
    assert "KERAS_BACKEND is set to 'tensorflow'" in done.stderr


if __name__ == "__main__":
    run_script(Path("train.py"), [], Maker(Path(sys.argv[1])))
