"""``uncork diagnose --timeline``: a trace of the training as it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from running import Run, Write

pytestmark = pytest.mark.slow

TRAINING = """
import keras, numpy as np, tensorflow as tf
x = np.random.default_rng(0).random((960, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(8)
"""


def test_a_trace_is_kept_and_named(write: Write, uncork: Run, tmp_path: Path) -> None:
    script = write(TRAINING + "model.fit(data, epochs=50, verbose=0)\n")
    done = uncork("diagnose", "--budget", "2", "--timeline", "traces", script)
    assert done.returncode == 0, done.stderr
    assert "timeline: tensorboard --logdir traces" in done.stdout
    (trace,) = (tmp_path / "traces").rglob("*.xplane.pb")
    assert trace.parent.parent == tmp_path / "traces/plugins/profile"


def test_steps_of_a_loop_of_the_user_s_own_are_marked_too(
    write: Write, uncork: Run, tmp_path: Path
) -> None:
    loop = """
for epoch in range(1000):
    for x, y in data:
        model.train_on_batch(x, y)
"""
    done = uncork("diagnose", "--budget", "2", "--timeline", "traces", write(TRAINING + loop))
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "traces").rglob("*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(file.read_bytes())
    names = {event.name for plane in space.planes for event in plane.event_metadata.values()}
    assert "train" in names


def test_a_script_that_profiles_itself_gets_its_diagnosis_all_the_same(
    write: Write, uncork: Run, tmp_path: Path
) -> None:
    own = "tf.profiler.experimental.start('own')\n"
    script = write(TRAINING + own + "model.fit(data, epochs=50, verbose=0)\n")
    done = uncork("diagnose", "--budget", "2", "--timeline", "traces", script)
    assert done.returncode == 0, done.stderr
    assert "no timeline was saved" in done.stdout
    assert "tensorboard --logdir traces" not in done.stdout
