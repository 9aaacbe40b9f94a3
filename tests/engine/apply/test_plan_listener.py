"""``uncork run``: the whole script, trained with a plan in force or exactly as it was written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest

from plan_files import made_here
from records import empty_plan
from running import (
    Run,
    Write,
    environment,
    environment_with_tests,
    remaining_temporary_files,
    restore_sigint,
    run_python,
)
from uncork.core.documents.plan import PLAN_SCHEMA
from uncork.core.documents.plan_file import serialize_plan

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent

TRAIN = """
    import os, sys
    import keras, numpy as np, tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    keras.utils.set_random_seed(7)
    os.makedirs("photos", exist_ok=True)
    names, draw = [], np.random.default_rng(3)
    for number in range(22):
        names.append(f"photos/{number:02}.jpg")
        pixels = draw.integers(0, 256, (24, 32, 3)).astype("uint8")
        tf.io.write_file(names[-1], tf.io.encode_jpeg(pixels))

    def load(name):
        image = tf.io.decode_jpeg(tf.io.read_file(name), channels=3)
        image = tf.image.resize(image, [12, 12]) / 255.0
        image = tf.image.random_flip_left_right(image)
        return image, tf.strings.length(name) % 3

    training = tf.data.Dataset.from_tensor_slices(names).shuffle(22).map(load).batch(4)
    model = keras.Sequential([
        keras.Input((12, 12, 3)), keras.layers.Flatten(), keras.layers.Dense(16, "relu"),
        *(keras.layers.Dense(8, "relu") for _ in range(3)),
        keras.layers.Dropout(0.3), keras.layers.Dense(3),
    ])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(
        training, epochs=3, verbose=2, validation_data=training,
        callbacks=[keras.callbacks.ModelCheckpoint(sys.argv[1] + ".keras"),
                   keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9)],
    )
    np.savez(sys.argv[1] + ".npz", *model.get_weights(),
             *[v.numpy() for v in model.optimizer.variables])
    print("losses", history.history["loss"], file=open(sys.argv[1] + ".txt", "w"))
    sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    """


def make_plan(cwd: Path, plan: str, script: str) -> None:
    """Of exact edits, for a script that takes the name of its results."""
    made = subprocess.run(
        [sys.executable, HERE / "plan_maker.py", plan, script, "x"],
        cwd=cwd,
        env=environment_with_tests(cwd),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert made.returncode == 0, made.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script, a plan of exact edits for it, and what plain Python makes of it."""
    cwd = tmp_path_factory.mktemp("trained")
    lines = TRAIN.splitlines()
    (cwd / "train.py").write_text("\n".join(line[4:] for line in lines))
    plain = run_python("train.py", "plain", cwd=cwd)
    assert plain.returncode == 0, plain.stderr
    make_plan(cwd, "exact.json", "train.py")
    (cwd / "empty.json").write_bytes(serialize_plan(made_here(empty_plan())))
    return cwd


def train(cwd: Path, *args: object) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "uncork", "run", *args, cwd=cwd)


def same_training(cwd: Path, name: str) -> None:
    plain, ours = np.load(cwd / "plain.npz"), np.load(cwd / f"{name}.npz")
    assert plain.files == ours.files != []
    for key in plain.files:
        assert plain[key].dtype == ours[key].dtype
        assert plain[key].tobytes() == ours[key].tobytes()


@pytest.fixture(scope="module")
def under_the_plan(trained: Path) -> subprocess.CompletedProcess[str]:
    """The script trained under the plan of exact edits; it ends itself with a code of its own."""
    return train(trained, "--plan", "exact.json", "train.py", "exact", 5)


def test_the_exit_code_is_the_script_s(under_the_plan) -> None:
    assert under_the_plan.returncode == 5, under_the_plan.stderr


def test_weights_under_an_exact_plan_are_those_of_plain_python(trained, under_the_plan) -> None:
    same_training(trained, "exact")
    losses = [
        json.loads((trained / f"{n}.txt").read_text().partition(" ")[2]) for n in ("plain", "exact")
    ]
    # Keras averages the loss of an epoch over its executions, in another order of sums.
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_a_checkpoint_under_a_plan_has_the_user_s_settings(trained, under_the_plan) -> None:
    loaded = keras.models.load_model(trained / "exact.keras")
    settings = loaded.steps_per_execution, loaded.jit_compile, loaded.optimizer.iterations.numpy()
    assert settings == (1, False, 18)


@pytest.mark.parametrize("options", [(), ("--plan", "empty.json")], ids=["no plan", "empty plan"])
def test_nothing_to_do_changes_nothing(trained: Path, options: tuple[str, ...]) -> None:
    name = f"idle{len(options)}"
    done = train(trained, *options, "train.py", name)
    assert done.returncode == 0, done.stderr
    same_training(trained, name)
    assert (trained / f"{name}.txt").read_text() == (trained / "plain.txt").read_text()


CATCHING = """
class Told(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        open("steps", "a").write("step\\n")

for _ in range(2):
    try:
        history = model.fit(training, callbacks=[Told()])
    except Exception:
        print("caught")
"""


def test_another_training_is_refused_before_its_first_step(trained: Path) -> None:
    """Whatever the script catches; and with --allow-partial it goes on as written, and says so."""
    text = (trained / "train.py").read_text().replace("[12, 12]", "[16, 16]", 1)
    text = text.replace("keras.Input((12, 12, 3))", "keras.Input((16, 16, 3))")
    (trained / "other.py").write_text(text.partition("history = ")[0] + CATCHING)
    refused = train(trained, "--plan", "exact.json", "other.py", "x")
    assert refused.returncode == 2
    assert "the plan was made for" in refused.stderr
    assert "apply only what still fits: uncork run --allow-partial" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "caught" not in refused.stdout
    assert not (trained / "steps").exists()
    done = train(trained, "--allow-partial", "--plan", "exact.json", "other.py", "x")
    assert done.returncode == 0, done.stderr
    assert "trains unmodified, without the plan" in done.stderr
    assert "the plan was made for" in done.stderr
    assert len((trained / "steps").read_text().split()) == 2 * 6


def test_a_training_that_is_not_reached_is_missed_aloud(trained: Path) -> None:
    (trained / "idle.py").write_text("print('nothing to train today')")
    done = train(trained, "--plan", "exact.json", "idle.py")
    assert (done.returncode, done.stdout) == (2, "nothing to train today\n")
    assert "was not reached" in done.stderr
    done = train(trained, "--allow-partial", "--plan", "exact.json", "idle.py")
    assert done.returncode == 0
    assert "was not reached" in done.stderr


def _flip(text: str) -> str:
    return text.replace('"steps": 2', '"steps": 3').replace('"steps":2', '"steps":3')


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_flip, "changed after it was proved"),
        (lambda text: text[: len(text) // 2], "plan"),
        (lambda _: "{}", "plan"),
        (lambda _: "", "plan"),
        (lambda text: text.replace(f'"schema": {PLAN_SCHEMA}', '"schema": 99', 1), "upgrade"),
    ],
    ids=["edited by hand", "cut short", "empty object", "empty file", "newer schema"],
)
def test_a_plan_that_is_none_is_refused_before_the_script_starts(
    trained: Path, tmp_path: Path, change, said: str
) -> None:
    text = (trained / "exact.json").read_text()
    assert change(text) != text
    (tmp_path / "bad.json").write_text(change(text))
    (tmp_path / "train.py").write_text("open('started', 'w')")
    done = train(tmp_path, "--plan", "bad.json", "train.py")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "started").exists()


def test_an_error_of_the_script_s_own_looks_as_it_does_in_python(
    write: Write, uncork: Run, tmp_path: Path
) -> None:
    write("def train():\n    raise ValueError('no such class: cat')\n\ntrain()\n")
    ours = uncork("run", "train.py")
    theirs = run_python("train.py", cwd=tmp_path)
    assert (ours.returncode, theirs.returncode) == (1, 1)
    assert ours.stderr == theirs.stderr


def test_ctrl_c_ends_the_script_and_shows_where(write: Write, tmp_path: Path) -> None:
    write("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "uncork", "run", "train.py"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": restore_sigint}
    with subprocess.Popen(command, cwd=tmp_path, env=environment(tmp_path), **pipes) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(0.2)
        os.kill(child.pid, signal.SIGINT)
        _, stderr = child.communicate(timeout=30)
    assert child.returncode == 130
    assert b"KeyboardInterrupt" in stderr
    assert b"uncork/engine" not in stderr
    assert remaining_temporary_files(tmp_path) == []


def test_the_script_reads_the_terminal_s_input(write: Write, uncork: Run, tmp_path: Path) -> None:
    write("print(input().upper())")
    (tmp_path / "answers").write_text("yes\n")
    with (tmp_path / "answers").open() as answers:
        assert uncork("run", "train.py", stdin=answers).stdout == "YES\n"


@pytest.mark.deep
def test_a_fit_after_a_loop_is_the_same_fit_as_in_the_tuning(trained: Path) -> None:
    """Loops and fits are numbered together."""
    warm = (
        "for batch in training.take(3):\n"
        "    with tf.GradientTape() as tape:\n"
        "        loss = tf.reduce_mean(model(batch[0]))\n"
        "    weights = model.trainable_variables\n"
        "    model.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))\n"
    )
    text = (trained / "train.py").read_text().replace("history = ", warm + "history = ", 1)
    (trained / "warm.py").write_text(text)
    make_plan(trained, "warm.json", "warm.py")
    assert json.loads((trained / "warm.json").read_text())["before"]["workload"]["index"] == 1
    done = train(trained, "--plan", "warm.json", "warm.py", "warm")
    assert done.returncode == 0, done.stderr
    assert "was not reached" not in done.stderr
