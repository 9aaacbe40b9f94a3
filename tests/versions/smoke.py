"""A script is diagnosed, tuned and run with its plan, as a user would do it.

For ``make test-versions``, on the oldest and the newest releases of TensorFlow and Keras. Its name
keeps it out of all other runs, which test the same in more detail.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from uncork.core.base.record import from_json
from uncork.core.documents.diagnosis import Diagnosis
from uncork.core.documents.plan import Plan
from uncork.core.documents.plan_file import load_plan

SCRIPT = """\
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
rows = np.random.random((1_000, 64)).astype("float32")


def prepare(row):
    for _ in range(SORTS):
        row = tf.reverse(tf.sort(row * 1.001), [0])
    return row, tf.reduce_mean(row, keepdims=True)


data = tf.data.Dataset.from_tensor_slices(rows).map(prepare).batch(5)END
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=3, verbose=0)
print("steps", int(model.optimizer.iterations), "bias", model.layers[-1].bias.numpy()[0])
"""
MAP_LINE = 1 + [".map(" in line for line in SCRIPT.splitlines()].index(True)
# Most of an epoch is sorting, which can be cached; or Python between the short steps of a model.
SCRIPTS = {
    "input": SCRIPT.replace("SORTS", "40").replace("END", ""),
    "step": SCRIPT.replace("SORTS", "1").replace("END", ".cache().prefetch(2)"),
}
# What may be accepted: in which stages of the order of optimizations.
STAGES = {"input": {"input"}, "step": {"host", "compile"}}


def python(*args: object, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, args)],
        cwd=cwd, capture_output=True, text=True, timeout=1_000, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=["input", "step"])
def bottleneck(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(bottleneck: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(bottleneck)
    (folder / "train.py").write_text(SCRIPTS[bottleneck])
    return folder


@pytest.fixture(scope="module")
def plan(folder: Path) -> Plan:
    """Tuned in less time, unless other programs are using the machine."""
    python("-m", "uncork", "tune", "--strict", "exact", "--budget", 300, "train.py", cwd=folder)
    return load_plan(folder / "plan.json")


def test_a_diagnosis_names_the_map(folder: Path) -> None:
    python("-m", "uncork", "diagnose", "--budget", 20, "--json", "d.json", "train.py", cwd=folder)
    workload = from_json((folder / "d.json").read_bytes(), Diagnosis).workloads[0]
    stage = next(stage for stage in workload.stages if stage.kind == "map")
    assert stage.at == f"train.py:{MAP_LINE}"
    assert sum(workload.breakdown.values()) == pytest.approx(1.0)


@pytest.mark.timeout(1_200)
def test_a_rewrite_is_accepted(bottleneck: str, plan: Plan) -> None:
    accepted = [step for step in plan.accepted_steps if step.stage in STAGES[bottleneck]]
    assert accepted
    assert all(step.proof is not None and step.proof.passed for step in accepted)


@pytest.mark.timeout(1_200)
def test_the_script_trains_the_same_with_its_plan(folder: Path, plan: Plan) -> None:
    planned = python("-m", "uncork", "run", "--plan", "plan.json", "train.py", cwd=folder)
    assert planned == python("train.py", cwd=folder)
