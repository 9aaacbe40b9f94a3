"""Weights on several devices, which a process must ask for before TensorFlow starts."""

from __future__ import annotations

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.distribute.values import PerReplica

from uncork.training.inspect.replicas import repeat_batch, replica_count

TWO = """
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
from uncork.measure.machine.devices import logical_device_count
from uncork.training.inspect.replicas import replica_count

layers = []
for strategy in (None, tf.distribute.OneDeviceStrategy("/cpu:0"),
                 tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])):
    dense = keras.layers.Dense(1)
    if strategy is None:
        dense.build((None, 2))
    else:
        with strategy.scope():
            dense.build((None, 2))
    layers.append(dense)
print(logical_device_count(), *(replica_count([each]) for each in layers), replica_count(layers))
"""


SERVER = """
import tensorflow as tf

other = tf.distribute.Server.create_local_server()
tf.config.experimental_connect_to_host(other.target.removeprefix("grpc://"), job_name="other")
from uncork.measure.machine.devices import logical_device_count

print(len(tf.config.list_logical_devices("CPU")), logical_device_count())
"""


def printed(script: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_layer_without_weights_is_on_one_device() -> None:
    assert replica_count([keras.layers.ReLU(), object()]) == 1


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.slow
def test_the_strategy_of_the_weights_tells() -> None:
    assert printed(TWO) == ["2", "1", "1", "2", "2"]


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.slow
def test_the_processor_of_another_server_is_no_device_beside_ours() -> None:
    assert printed(SERVER) == ["2", "1"]


def test_a_larger_batch_has_the_same_rows_on_each_replica() -> None:
    spread = PerReplica([tf.constant([[1.0], [2.0]]), tf.constant([[3.0]])])
    batch = {"x": spread, "y": (np.array([4, 5]), None), "rate": tf.constant(0.5), "name": "a"}
    larger = repeat_batch(batch, 2)
    assert [part.numpy().ravel().tolist() for part in larger["x"].values] == [[1, 2, 1, 2], [3, 3]]
    assert larger["y"][0].numpy().tolist() == [4, 5, 4, 5]
    assert larger["y"][1] is None
    assert (float(larger["rate"]), larger["name"]) == (0.5, "a")
    sparse = repeat_batch(tf.sparse.from_dense([[0, 1], [2, 0]]), 2)
    assert tf.sparse.to_dense(sparse).numpy().tolist() == [[0, 1], [2, 0], [0, 1], [2, 0]]
    rows = repeat_batch(tf.ragged.constant([[1], [2, 3]]), 2)
    assert rows.to_list() == [[1], [2, 3], [1], [2, 3]]
