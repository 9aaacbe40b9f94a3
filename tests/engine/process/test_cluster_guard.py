"""Trainings of several processes are refused: before their script starts, and at the training."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from tensorflow.core.protobuf.tensorflow_server_pb2 import ServerDef
from tensorflow.python.eager import context

from running import run_uncork
from uncork.core.base import exit_codes
from uncork.core.base.errors import WrongUse
from uncork.engine.process.cluster_guard import refuse_cluster, require_single_process
from uncork.measure.machine.devices import cluster_process_count

# The script joins its cluster by itself, as launchers of clusters have it do.
JOINING = """
import json, os, sys
ports, index = sys.argv[1].split(","), int(sys.argv[2])
workers = [f"127.0.0.1:{port}" for port in ports]
task = {"type": "worker", "index": index}
os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
import keras, tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rows = tf.data.Dataset.range(64).map(lambda x: tf.cast(x, tf.float32)[None]).batch(8)
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(1e-4)
    optimizer.build(model.trainable_variables)


def one(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x, training=True) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


@tf.function
def step(x):
    return strategy.reduce("SUM", strategy.run(one, (x,)), axis=None)


for _ in range(2):
    for batch in strategy.experimental_distribute_dataset(rows):
        loss = step(batch)
print("trained to the end", float(loss))
"""


def cluster(**jobs):
    return {"TF_CONFIG": json.dumps({"cluster": jobs, "task": {"type": "worker", "index": 0}})}


@pytest.mark.parametrize(
    "environment",
    [
        {},
        cluster(),
        cluster(worker=["a:1"]),
        {"TF_CONFIG": "no JSON"},
        {"TF_CONFIG": "[]"},
        {"TF_CONFIG": '{"cluster": 3}'},
    ],
    ids=str,
)
def test_one_process_may_be_tried(environment):
    require_single_process(environment)


@pytest.mark.parametrize("jobs", [{"worker": ["a:1", "b:1"]}, {"chief": ["a:1"], "ps": ["b:1"]}])
def test_of_a_cluster_nothing_is_started(jobs):
    with pytest.raises(WrongUse, match="a cluster of 2 processes"):
        require_single_process(cluster(**jobs))


@pytest.mark.parametrize(
    ("jobs", "processes"),
    [({"worker": 1}, 1), ({"worker": 2}, 2), ({"chief": 1, "worker": 1}, 2)],
)
def test_all_jobs_of_a_cluster_that_was_joined_count(monkeypatch, jobs, processes):
    server = ServerDef()
    for name, tasks in jobs.items():
        job = server.cluster.job.add(name=name)
        for index in range(tasks):
            job.tasks[index] = f"127.0.0.1:{index}"
    monkeypatch.setattr(context.context(), "_collective_ops_server_def", server)
    assert cluster_process_count() == processes


def test_a_training_that_is_alone_is_not_refused():
    refuse_cluster("the training", 1)


def free_ports(number):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [str(each.getsockname()[1]) for each in held]
    for each in held:
        each.close()
    return ",".join(ports)


def test_workers_that_join_by_themselves_are_refused_at_their_training(tmp_path):
    (tmp_path / "temp").mkdir()
    (tmp_path / "train.py").write_text(JOINING)
    ports = free_ports(2)

    def diagnosed(index):
        return run_uncork("diagnose", "train.py", ports, index, cwd=tmp_path)

    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(diagnosed, range(2)):
            assert done.returncode == exit_codes.WRONG_USE, done.stderr
            assert "is one of 2 processes of a cluster" in done.stderr
            assert "uncork run --plan" in done.stderr
            assert "trained to the end" not in done.stdout
            assert "Traceback" not in done.stderr
