"""What users really hand over: each gets a correct result or a clear message, and loses nothing."""

from __future__ import annotations

import inspect
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from running import (
    FORK_SERVER_VARIABLE,
    Run,
    Write,
    environment,
    remaining_temporary_files,
    restore_sigint,
)
from short_worker import replace_worker, shorten_measurements
from uncork.core.base.record import from_json
from uncork.core.documents.diagnosis import Diagnosis
from uncork.core.documents.plan import Policy
from uncork.core.documents.plan_file import parse_plan
from uncork.core.edits.edit import Guarantee
from uncork.core.edits.step import DtypePolicy, JitCompile, StepEdit
from uncork.engine.commands.diagnose import list_trainings
from uncork.engine.commands.tune import tune
from uncork.engine.process import worker_process as processes
from uncork.engine.process.worker_failure import WorkerFailed
from uncork.engine.process.worker_process import Script

pytestmark = pytest.mark.slow

HEAD = """
import keras, numpy as np, tensorflow as tf
x = np.random.default_rng(0).random((96, 8)).astype("float32")
y = x[:, :1]
def mlp():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model
"""
ROWS = "tf.data.Dataset.from_tensor_slices((x, y))"


def diagnosis(cwd: Path) -> Diagnosis:
    return from_json((cwd / "uncork-report/diagnosis.json").read_bytes(), Diagnosis)


def test_a_script_that_is_not_there(uncork: Run) -> None:
    for verb in ("diagnose", "tune", "run"):
        done = uncork(verb, "no-such.py")
        assert done.returncode == 2
        assert "no-such.py" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_script_that_raises_before_training(write: Write, uncork: Run, tmp_path: Path) -> None:
    write("import keras\nraise FileNotFoundError('no photos in /data')\n")
    done = uncork("diagnose", "train.py")
    assert done.returncode == 1
    assert "no photos in /data" in done.stderr
    assert "line 2" in done.stderr
    assert "uncork/" not in done.stderr
    assert remaining_temporary_files(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("print('hello')", 3, "without training"),
        ("import sys; sys.exit(3)", 1, "exited with 3"),
        ("import sys; sys.exit()", 3, "without training"),
        ("import os; os._exit(0)", 3, "ended its process (os._exit)"),
        (HEAD + "mlp().fit(x[:8], y[:8], batch_size=8)", 3, "no training call is long enough"),
    ],
    ids=["never trains", "exits with a code", "exits", "leaves", "trains for one step"],
)
def test_a_script_without_a_training(text: str, code: int, said: str, write, uncork: Run) -> None:
    write(text)
    done = uncork("diagnose", "train.py")
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.deep
def test_a_script_that_catches_everything_loses_no_result(write: Write, uncork: Run) -> None:
    """It is ended from outside in the end; what was measured lies on the disk by then."""
    write(
        HEAD
        + """
for rate in (0.1, 0.01, 0.001, 0.0001, 0.00001):
    try:
        mlp().fit(x, y, batch_size=8, epochs=3, verbose=0)
    except:
        print("failed", rate)
"""
    )
    done = uncork("diagnose", "--budget", 2, "train.py")
    assert done.returncode == 0, done.stderr
    assert "samples/s" in done.stdout


FIT = "mlp().fit(x, y, batch_size=8, epochs=50, verbose=0)\n"
LOOP = f"""
model, optimizer = mlp(), keras.optimizers.SGD()
@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
for epoch in range(50):
    for a, b in {ROWS}.batch(8):
        step(a, b)
"""
# What scripts do before they train, around it, or instead.
HABITS = {
    "loads the weights that it saved": HEAD
    + "model = mlp()\nmodel.save_weights('init.weights.h5')\n"
    + "model.load_weights('init.weights.h5')\n"
    + "model.fit(x, y, batch_size=8, epochs=50, verbose=0)",
    "prints megabytes": HEAD
    + "import sys\nprint('x' * 4_000_000)\nsys.stderr.write('y' * 4_000_000)\n"
    + FIT,
    "changes its folder": "import os\nos.mkdir('temp/there')\nos.chdir('temp/there')\n"
    + HEAD
    + "mlp().save('a.keras')\nkeras.saving.load_model('a.keras')\n"
    + FIT,
    "works in a folder that is gone": "import os, tempfile\ngone = tempfile.mkdtemp()\n"
    + "os.chdir(gone)\nos.rmdir(gone)\n"
    + HEAD
    + FIT,
    "forks": "import os, time\nif os.fork() == 0:\n    time.sleep(500)\n" + HEAD + FIT,
    "has a pool of processes": "import multiprocessing\npool = multiprocessing.Pool(2)\n"
    + "print(pool.map(abs, [-1, -2]))\n"
    + HEAD
    + FIT,
    "saves in its loop": HEAD
    + LOOP
    + "    model.save(f'{epoch}.keras')\n    model = keras.saving.load_model(f'{epoch}.keras')\n",
}


@pytest.mark.every(4)
@pytest.mark.parametrize("habit", HABITS)
def test_a_script_with_such_a_habit_is_diagnosed(
    habit: str, write: Write, uncork: Run, tmp_path: Path
) -> None:
    write(HABITS[habit])
    given = environment(tmp_path)
    if habit in ("forks", "has a pool of processes"):
        # A fork of the tests' server does not show the variable by which Uncork finds what it
        # started.
        given = {name: value for name, value in given.items() if name != FORK_SERVER_VARIABLE}
    done = uncork("diagnose", "--quiet", "--budget", 2, "train.py", env=given)
    assert done.returncode == 0, done.stderr
    assert "samples/s" in done.stdout or "steps/s" in done.stdout
    assert remaining_temporary_files(tmp_path) == []
    files = {path.name for path in tmp_path.iterdir()}
    assert files == {"train.py", "temp", "uncork-report"}, "nothing that it saved"


@pytest.mark.deep
def test_an_error_in_the_third_epoch_is_the_script_s(write: Write, uncork: Run) -> None:
    write(HEAD + LOOP + "    if epoch == 2: raise RuntimeError('in the third epoch')\n")
    done = uncork("diagnose", "--quiet", "train.py")
    assert done.returncode in (0, 1), "measured before, or not"
    if done.returncode:
        assert "in the third epoch" in done.stderr


def test_required_arguments_that_are_missing(write: Write, uncork: Run) -> None:
    write(
        "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--data', required=True)\np.parse_args()"
    )
    done = uncork("diagnose", "train.py")
    assert done.returncode == 1
    assert "the following arguments are required: --data" in done.stderr
    assert "exited with 2 before training" in done.stderr


def test_an_empty_dataset(write: Write, uncork: Run) -> None:
    write(HEAD + f"mlp().fit({ROWS}.filter(lambda a, b: False).batch(8), epochs=2)")
    done = uncork("diagnose", "train.py")
    assert done.returncode == 3, done.stderr
    assert "empty" in done.stderr


def test_a_model_that_was_never_compiled(write: Write, uncork: Run) -> None:
    write(HEAD + "keras.Sequential([keras.layers.Dense(1)]).fit(x, y, epochs=2)")
    done = uncork("diagnose", "train.py")
    assert done.returncode in (1, 2)
    assert "compile" in done.stderr


def test_a_data_error_in_the_middle(write: Write, uncork: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.tfrecord").write_bytes(b"\x10\0\0\0\0\0\0\0 torn")
    write(
        HEAD + "data = tf.data.TFRecordDataset('rows.tfrecord')\n"
        "data = data.map(lambda row: (tf.io.decode_raw(row, tf.float32), 0.0)).batch(8)\n"
        "mlp().fit(data, epochs=2)"
    )
    done = uncork("diagnose", "train.py")
    assert done.returncode == 1
    assert "truncated record" in done.stderr or "corrupted record" in done.stderr
    assert remaining_temporary_files(tmp_path) == []


def test_a_data_error_behind_many_good_steps(write: Write, uncork: Run, tmp_path: Path) -> None:
    write(
        HEAD + "with tf.io.TFRecordWriter('rows.tfrecord') as writer:\n"
        "    for row in x:\n        writer.write(row.tobytes())\n"
        "good = open('rows.tfrecord', 'rb').read()\n"
        "open('rows.tfrecord', 'wb').write(good[:-9] + b'torn')\n"
        "data = tf.data.TFRecordDataset('rows.tfrecord')\n"
        "row = lambda text: tf.ensure_shape(tf.io.decode_raw(text, tf.float32), [8])\n"
        "data = data.map(lambda text: (row(text), row(text)[:1])).batch(8)\n"
        "mlp().fit(data, epochs=2, verbose=0)"
    )
    done = uncork("diagnose", "--quiet", "train.py")
    assert done.returncode == 1
    assert "truncated record" in done.stderr or "corrupted record" in done.stderr
    assert "uncork: this error ended the training at train.py:17" in done.stderr
    assert remaining_temporary_files(tmp_path) == []


DATA = {
    "endless, NaN": f"y = y * np.nan\nmlp().fit({ROWS}.repeat().batch(8))",
    "dictionaries, of unknown length": """
ins = {"left": keras.Input((8,), name="left"), "right": keras.Input((8,), name="right")}
both = keras.layers.Concatenate()(list(ins.values()))
model = keras.Model(ins, {"a": keras.layers.Dense(1, name="a")(both),
                          "b": keras.layers.Dense(1, name="b")(both)})
model.compile("sgd", {"a": "mse", "b": "mae"})
data = tf.data.Dataset.from_tensor_slices(({"left": x, "right": x}, {"a": y, "b": y}))
model.fit(data.filter(lambda ins, outs: True).batch(8), epochs=2)
""",
    "ragged, endless with steps_per_epoch": """
ragged = tf.ragged.constant([[i % 5] * (1 + i % 3) for i in range(96)], dtype=tf.int32)
data = tf.data.Dataset.from_tensor_slices((ragged, y)).repeat().batch(8)
data = data.map(lambda a, b: (a.to_tensor(shape=(None, 3)), b))
model = keras.Sequential([keras.layers.Embedding(5, 4), keras.layers.Flatten(),
                          keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=2, steps_per_epoch=9)
""",
    "sparse": """
rows = tf.sparse.from_dense(np.where(x > 0.5, x, 0))
model = keras.Sequential([keras.Input((8,), sparse=True), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(tf.data.Dataset.from_tensor_slices((rows, y)).batch(8), epochs=2)
""",
    "a step of its own": """
class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
    def call(self, inputs):
        return self.dense(inputs)
    def train_step(self, data):
        a, b = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(a, training=True) - b) ** 2)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables),
                             self.trainable_variables)
        return {"loss": loss}
model = Own()
model.compile("sgd")
model.fit(x, y, epochs=2)
""",
    "under MirroredStrategy": f"""
with tf.distribute.MirroredStrategy().scope():
    model = mlp()
model.fit({ROWS}.batch(8), epochs=2)
""",
}


@pytest.mark.every(3)
@pytest.mark.parametrize("case", DATA)
def test_data_and_models_of_all_kinds_are_diagnosed(case: str, tmp_path: Path) -> None:
    from uncork.core.base.journal import Journal  # noqa: PLC0415 - imports TensorFlow below
    from uncork.core.costmodel.run_breakdown import is_near_ceiling  # noqa: PLC0415
    from uncork.engine.diagnose.observe import observe  # noqa: PLC0415
    from uncork.engine.fit.fit_subject import FitSubject  # noqa: PLC0415
    from uncork.measure.machine.devices import detect_machine  # noqa: PLC0415

    model, given = fit_of(HEAD + DATA[case])
    subject = FitSubject(model, given, 0, "train.py:9", str(tmp_path))
    try:
        found = observe(subject, detect_machine(), Journal(), budget_s=2.0)
    finally:
        subject.restore()
    assert found.measurement.samples_per_s > 0
    assert sum(found.breakdown.values()) == pytest.approx(1.0)
    # Far from its ceiling, time may be lost in parts that are each too small for a finding.
    assert found.findings or not is_near_ceiling(found)


def fit_of(text: str) -> tuple[Any, dict[str, Any]]:
    """The model that a script trains, and what it gives to ``fit``; it is not trained."""
    import keras  # noqa: PLC0415

    signature, calls = inspect.signature(keras.Model.fit), list[inspect.BoundArguments]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.Model, "fit", lambda *a, **k: calls.append(signature.bind(*a, **k)))
        exec(text, {"__name__": "__main__"})
    (bound,) = calls
    bound.apply_defaults()
    given = dict(bound.arguments)
    return given.pop("self"), given


@pytest.mark.deep
def test_a_fit_called_for_each_batch_is_seen_as_one_training(
    write: Write, uncork: Run, tmp_path: Path
) -> None:
    one = "    model.fit(x[i % 6:][:16], y[i % 6:][:16], verbose=0)\n"
    write(HEAD + "model = mlp()\nfor i in range(400):\n" + one)
    done = uncork("diagnose", "train.py", "--budget", 2)
    assert done.returncode == 0, done.stderr
    (found,) = diagnosis(tmp_path).workloads
    assert found.workload.is_fit_in_loop
    named = [(finding.cause, finding.at) for finding in found.findings]
    assert found.is_inconclusive or named[0] == ("fit_in_loop", "train.py:11")


def test_a_fit_that_is_called_a_few_times_is_too_small(write: Write, uncork: Run) -> None:
    write(HEAD + "for _ in range(4):\n    mlp().fit(x[:16], y[:16], verbose=0)\n")
    done = uncork("diagnose", "train.py")
    assert done.returncode == 3
    assert "1 steps x 1 epochs" in done.stderr


@pytest.mark.parametrize(
    ("edit", "guarantee", "words"),
    [
        (JitCompile(), "rounding", "loss difference nan"),
        (DtypePolicy(policy="mixed_bfloat16"), "precision", "loss is not finite"),
    ],
    ids=["rounding", "precision"],
)
def test_a_nan_loss_is_never_proved_to_be_kept(
    edit: StepEdit, guarantee: Guarantee, words: str, tmp_path: Path
) -> None:
    from uncork.engine.fit.fit_subject import FitSubject  # noqa: PLC0415 - imports TensorFlow

    names: dict[str, Any] = {}
    exec(HEAD + f"y = y * np.nan\nmodel = mlp()\ndata = {ROWS}.batch(8)", names)
    given = {"x": names["data"], "epochs": 3}
    subject = FitSubject(names["model"], given, 0, "train.py:9", str(tmp_path))
    version = subject.original.with_step_edits((edit,))
    proof = subject.prove_step(version, guarantee, 5.0)
    assert not proof.passed
    assert words in proof.detail


STAGES = (
    HEAD
    + """
for fold in range(3):
    model = mlp()
    held = np.arange(96) % 3 == fold
    model.fit(x[~held], y[~held], batch_size=4, epochs=2, verbose=0,
              callbacks=[keras.callbacks.ModelCheckpoint("best.keras")])
    print("fold", fold, "done")
model.fit(x, y, batch_size=4, epochs=2, verbose=0)
model.save("final.keras")
"""
)


def test_several_trainings_are_listed_and_chosen(write: Write, uncork: Run, tmp_path: Path) -> None:
    write(STAGES)
    listed = uncork("diagnose", "--list", "train.py")
    assert listed.returncode == 0, listed.stderr
    lines = [each for each in listed.stdout.splitlines() if "Model.fit" in each]
    assert [each.split()[:2] for each in lines] == [["0:", "train.py:13"], ["1:", "train.py:16"]]
    missing = uncork("diagnose", "--training", 7, "train.py")
    assert missing.returncode == 2
    assert "--training 0" in missing.stderr
    second = uncork("diagnose", "--quiet", "--budget", 2, "--training", 1, "train.py")
    assert second.returncode == 0, second.stderr
    assert "fold 2 done" in second.stdout, "what comes before it is trained"
    assert diagnosis(tmp_path).workloads[0].workload.at == "train.py:16"
    assert list(tmp_path.glob("*.keras")) == [], "a trial must not save"


@pytest.mark.usefixtures("forked_processes")
def test_files_of_the_user_s_stay_as_they_were(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints are written on trial, and steps run; how fast they are is set by the test."""
    write(
        "import atexit, os\nopen('log', 'w').write('begun')\nos.remove('notes')\n"
        "atexit.register(lambda: open('results', 'w').write('of a trial'))\n" + STAGES
    )
    for name in ("best.keras", "final.keras", "log", "notes", "results"):
        (tmp_path / name).write_bytes(b"of last week")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    replace_worker(monkeypatch, "saving")
    monkeypatch.chdir(tmp_path)
    temp = tmp_path / "temp"
    temp.mkdir()
    monkeypatch.setenv("TMPDIR", str(temp))
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    plan, interrupted = tune(Script("train.py"), lambda _: None, policy=Policy(budget_s=1e6))
    assert not interrupted
    tried = {step.name: step for step in plan.steps if step.measured}
    assert list(tried) == ["async_checkpoint", "steps_per_execution"]
    assert all(step.proof and step.proof.passed for step in tried.values())
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == before
    assert remaining_temporary_files(tmp_path) == []


@pytest.mark.usefixtures("forked_processes")
def test_a_script_that_leaves_a_thread_behind_is_not_waited_for(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that watches the GPU, and is told to end behind the training."""
    begin = (
        "import threading\nstop = threading.Event()\nthreading.Thread(target=stop.wait).start()\n"
    )
    write(begin + HEAD + "mlp().fit(x, y, verbose=0)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(processes, "_GRACE_S", 0.2)
    (found,) = list_trainings(Script("train.py"), lambda _: None)
    assert found.at == "train.py:12"
    stopped = "raise ValueError('before it is told to stop')"
    write(begin + HEAD + stopped)
    with pytest.raises(WorkerFailed) as failed:
        list_trainings(Script("train.py"), lambda _: None)
    assert failed.value.exit_code == 1


def test_standard_input_reaches_the_script(write: Write, uncork: Run, tmp_path: Path) -> None:
    (tmp_path / "answers").write_text("3\n")
    write(HEAD + "mlp().fit(x, y, batch_size=8, epochs=int(input('epochs? ')))")
    with (tmp_path / "answers").open() as answers:
        done = uncork("diagnose", "--list", "train.py", stdin=answers)
    assert done.returncode == 0, done.stderr
    assert "12 steps x 3 epochs" in done.stdout


def test_standard_input_that_has_ended(write: Write, uncork: Run) -> None:
    write("epochs = int(input())")
    done = uncork("diagnose", "train.py")
    assert done.returncode == 1
    assert "EOFError" in done.stderr


def tuning(cwd: Path) -> subprocess.Popen[str]:
    """With time enough that something is still to be tried after a slow start."""
    command = [sys.executable, "-m", "uncork", "tune", "-v", "--budget", "120", "train.py"]
    pipes = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "preexec_fn": restore_sigint,
    }
    return subprocess.Popen(command, cwd=cwd, env=environment(cwd), text=True, **pipes)


def until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if words in line:
            return seen
    raise AssertionError(f"no {words!r} in:\n{seen}")


LONG = HEAD + f"mlp().fit({ROWS}.batch(8), epochs=1000, verbose=0)"


def test_ctrl_c_saves_what_was_found(write: Write, tmp_path: Path) -> None:
    write(LONG)
    with tuning(tmp_path) as process:
        until(process, "skipped")
        os.kill(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    plan = parse_plan((tmp_path / "plan.json").read_bytes())
    assert plan.steps
    assert any("interrupted" in note for note in plan.notes)
    assert remaining_temporary_files(tmp_path) == []


def test_ctrl_c_before_there_is_anything(write: Write, tmp_path: Path) -> None:
    write("import time\nprint('ready', flush=True)\ntime.sleep(60)")
    with tuning(tmp_path) as process:
        until(process, "ready")
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    assert "interrupted" in rest
    assert not (tmp_path / "plan.json").exists()
    assert remaining_temporary_files(tmp_path) == []


def child_of(process: subprocess.Popen[str]) -> int:
    """The worker process; another child is its guardian."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    lines = {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    return next(child for child, line in lines.items() if b"worker.main" in line)


def test_a_killed_child_loses_no_step(write: Write, tmp_path: Path) -> None:
    """As the kernel does to a process that takes all memory."""
    write(LONG)
    with tuning(tmp_path) as process:
        until(process, "skipped")
        while not list(tmp_path.glob("temp/uncork-*/result")):  # a step is told, then saved
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(child_of(process), signal.SIGKILL)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    assert "SIGKILL ended the script's process (out of memory?)" in rest
    assert parse_plan((tmp_path / "plan.json").read_bytes()).steps
    assert remaining_temporary_files(tmp_path) == []


def test_a_child_killed_before_there_is_anything(write: Write, tmp_path: Path) -> None:
    write("import time\nprint('ready', flush=True)\ntime.sleep(60)")
    with tuning(tmp_path) as process:
        until(process, "ready")
        os.kill(child_of(process), signal.SIGKILL)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 1, rest
    assert "SIGKILL" in rest


def test_out_of_memory_in_a_trial_is_a_failed_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A runner that claims too much memory stands in for a model that does."""
    import keras  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415

    import uncork as package  # noqa: PLC0415
    from uncork.engine.fit import fit_subject  # noqa: PLC0415

    class Greedy:
        def prime(self) -> float:
            raise MemoryError("2 TB of activations")

    original = fit_subject.FitSubject.runner
    shorten_measurements(monkeypatch.setattr)
    monkeypatch.setattr(
        fit_subject.FitSubject,
        "runner",
        lambda self, v: Greedy() if v.step_edits or v.pipeline_edits else original(self, v),
    )
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.random.random((256, 8)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).map(lambda a, b: (a * 2, b)).batch(2)
    before = [w.copy() for w in model.get_weights()]
    plan = package.tune(model, data, policy=Policy(budget_s=100), quiet=True).record
    failed = [step for step in plan.steps if step.outcome == "failed"]
    assert failed
    assert all("2 TB of activations" in step.reason for step in failed)
    assert plan.accepted_steps == ()
    for ours, theirs in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def small_files() -> None:
    """In the new process: no file may grow beyond this, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_000, 16_000))


def test_a_full_disk_is_named_and_the_result_is_printed(
    write: Write, uncork: Run, tmp_path: Path
) -> None:
    write(HEAD + f"mlp().fit({ROWS}.batch(8), epochs=9)")
    # Half a compiled module would stay beside its source, for all processes after this one.
    given = {**environment(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    how = {"preexec_fn": small_files, "env": given}
    done = uncork("diagnose", "--quiet", "--budget", 2, "train.py", **how)
    assert done.returncode == 2, done.stderr
    assert "cannot write" in done.stderr
    assert "samples/s" in done.stdout
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "uncork-report/diagnosis.html").exists()


@pytest.mark.parametrize("name", ["taken", "taken/diagnosis.html"])
def test_a_place_that_cannot_be_written_is_refused_at_once(
    name: str, write: Write, uncork: Run, tmp_path: Path
) -> None:
    write("raise SystemExit('must not be started')")
    if "/" in name:
        (tmp_path / "taken").write_text("a file, no folder")
    else:
        (tmp_path / "taken").mkdir()
    done = uncork("diagnose", "--report", name, "train.py")
    assert done.returncode == 2
    assert "must not be started" not in done.stderr


NATIVE = "import os\nprint('printed', flush=True)\nos.write(2, b'F0000 from C++\\n')\n"


def test_the_log_of_a_script_that_fails_is_kept_and_named(
    uncork: Run, write: Write, tmp_path: Path
) -> None:
    write(NATIVE + "raise ValueError('bad data')")
    done, log = uncork("diagnose", "train.py"), tmp_path / "uncork-report" / "uncork.log"
    assert done.returncode == 1
    assert done.stdout == "printed\n"
    assert "ValueError: bad data" in done.stderr
    assert "from C++" not in done.stderr
    assert done.stderr.endswith("uncork: TensorFlow's log: uncork-report/uncork.log\n")
    assert "F0000 from C++" in log.read_text()
    assert remaining_temporary_files(tmp_path) == []


def test_of_a_process_that_is_killed_the_end_of_the_log_is_shown(
    uncork: Run, write: Write, tmp_path: Path
) -> None:
    write(NATIVE + "os.abort()")
    done = uncork("tune", "--quiet", "--report", "out/report.html", "train.py")
    assert done.returncode == 1
    said = "SIGABRT ended the script's process\nuncork: TensorFlow wrote last:\n  F0000 from C++\n"
    assert said in done.stderr
    assert "uncork: TensorFlow's log: out/uncork.log\n" in done.stderr


def test_a_run_leaves_standard_error_to_the_script(
    uncork: Run, write: Write, tmp_path: Path
) -> None:
    write(NATIVE)
    assert uncork("run", "train.py").stderr.startswith("F0000 from C++\n")
