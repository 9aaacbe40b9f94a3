"""A ``fit`` whose decoded photos are kept in files: tuned, run, interrupted, and out of room."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from engine.apply.test_plan_listener import TRAIN, make_plan
from records import STEPS, plan, workload_diagnosis
from running import Run, environment, restore_sigint, run_python
from short_worker import replace_worker
from uncork.core.base.record import replace
from uncork.core.documents.plan import Plan, Policy
from uncork.core.documents.plan_file import parse_plan, serialize_plan
from uncork.core.edits.pipeline import DiskCache, Prefetch, SplitMap
from uncork.engine.commands.tune import tune
from uncork.engine.process.worker_process import Script

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script, a plan for it, and what plain Python makes of it."""
    cwd = tmp_path_factory.mktemp("trained")
    (cwd / "train.py").write_text("\n".join(line[4:] for line in TRAIN.splitlines()))
    plain = run_python("train.py", "plain", cwd=cwd)
    assert plain.returncode == 0, plain.stderr
    make_plan(cwd, "exact.json", "train.py")
    return cwd


def planned(cwd: Path, folder: Path, size: int = 0) -> Path:
    """The plan that is there, with files in the place of memory."""
    made = parse_plan((cwd / "exact.json").read_bytes())
    step = made.accepted_steps[0]
    edits = tuple(
        DiskCache(stage=e.stage, expected_digest="", size_bytes=size, folder=str(folder))
        if type(e).__name__ == "Cache"
        else replace(e, expected_digest="")
        if type(e).__name__ in ("Prefetch", "AutotuneOff")
        else e
        for e in step.edits
    )
    path = cwd / f"{folder.name}.json"
    path.write_bytes(serialize_plan(replace(made, steps=(replace(step, edits=edits),))))
    return path


def train(cwd: Path, made: Path, name: str, **options: object) -> subprocess.CompletedProcess[str]:
    words = ("-m", "uncork", "run", "--allow-partial", "--plan", made, "train.py", name)
    return run_python(*words, cwd=cwd, **options)


def same_weights(cwd: Path, name: str) -> None:
    plain, ours = np.load(cwd / "plain.npz"), np.load(cwd / f"{name}.npz")
    assert plain.files == ours.files != []
    for key in plain.files:
        assert plain[key].tobytes() == ours[key].tobytes()


def test_weights_are_those_of_plain_python_and_no_file_stays(trained: Path, tmp_path: Path) -> None:
    done = train(trained, planned(trained, tmp_path), "files")
    assert done.returncode == 0, done.stderr
    assert "uncork: " not in done.stderr
    same_weights(trained, "files")
    assert not list(tmp_path.iterdir())


def test_without_room_it_trains_without_and_says_so(trained: Path, tmp_path: Path) -> None:
    done = train(trained, planned(trained, tmp_path, 10**15), "full")
    assert done.returncode == 0, done.stderr
    assert "trains without its disk cache: a file cache needs 1.1e+06 GB" in done.stderr
    same_weights(trained, "full")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_gone_is_done_without(trained: Path, tmp_path: Path) -> None:
    made = planned(trained, tmp_path)
    tmp_path.rmdir()
    done = train(trained, made, "gone")
    assert done.returncode == 0, done.stderr
    assert f"Uncork cannot cache files in {tmp_path}: No such file or directory" in done.stderr
    same_weights(trained, "gone")


def test_an_error_while_they_are_written_names_the_folder_and_what_to_do(
    trained: Path, tmp_path: Path
) -> None:
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))

    done = train(trained, planned(trained, tmp_path), "little", preexec_fn=little_room)
    assert done.returncode == 1
    assert f"the plan's disk cache in {tmp_path}" in done.stderr
    assert "free disk space, or tune again without --disk-cache" in done.stderr
    assert not list(tmp_path.iterdir())


def test_ctrl_c_leaves_no_file(trained: Path, tmp_path: Path) -> None:
    script = trained / "long.py"
    script.write_text((trained / "train.py").read_text().replace("epochs=3", "epochs=100_000"))
    child = subprocess.Popen(
        [sys.executable, "-m", "uncork", "run", "--plan", planned(trained, tmp_path), script, "x"],
        cwd=trained,
        env=environment(trained),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=restore_sigint,  # noqa: PLW1509
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.rglob("cache.index")):
        assert child.poll() is None, child.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    told = child.communicate(timeout=120)[1]
    assert child.returncode == 130, told
    assert not list(tmp_path.iterdir())


DRAWING = """
import sys
import keras, numpy as np, tensorflow as tf

def load(number):
    image = tf.linalg.matrix_transpose(tf.random.stateless_normal([64, 64], [number, 3]))
    return tf.reshape(tf.image.random_flip_left_right(image[..., None]), [-1]), number % 3

data = tf.data.Dataset.range(64).map(lambda n: load(tf.cast(n, tf.int32))).batch(8)
model = keras.Sequential([keras.Input((4096,)), keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data, epochs=int(sys.argv[1]), verbose=0)
"""


@pytest.mark.usefixtures("forked_processes")
def test_a_script_is_tuned_and_run_end_to_end(
    uncork: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are written, read and proved; that it pays is set by the test."""
    (tmp_path / "train.py").write_text(DRAWING)
    folder = tmp_path / "on disk"
    folder.mkdir()
    replace_worker(monkeypatch, "disk_cache")
    monkeypatch.chdir(tmp_path)
    policy = Policy(budget_s=1e6, disk_cache_folder=str(folder), loosest_guarantee="exact")
    made, interrupted = tune(Script("train.py", ("50",)), lambda _: None, policy=policy)
    assert not interrupted
    assert not list(folder.iterdir())
    assert made.before.cache_folder is not None
    assert made.before.cache_folder.path == made.policy.disk_cache_folder == str(folder)
    found = next(step for step in made.steps if step.name == "disk_cache")
    assert found.outcome == "kept", found.reason
    assert found.proof is not None
    assert found.proof.passed
    assert found.proof.kind == "exact"
    (tmp_path / "plan.json").write_bytes(serialize_plan(made))
    ran = uncork("run", "--plan", "plan.json", "train.py", 50)
    assert ran.returncode == 0, ran.stderr
    assert not list(folder.iterdir())


def test_a_plan_with_files_is_read_as_it_was_written(tmp_path: Path) -> None:
    edits = SplitMap(stage=1, expected_digest="a"), DiskCache(
        stage=1, expected_digest="b", size_bytes=9, folder=str(tmp_path)
    ), Prefetch(expected_digest="c")  # fmt: skip
    kept = next(step for step in STEPS if step.outcome == "kept")
    made: Plan = plan(before=workload_diagnosis(), steps=(replace(kept, edits=edits),))
    assert parse_plan(serialize_plan(made)).edits == edits
