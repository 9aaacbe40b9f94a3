from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from uncork.training.inspect.transfer import measure_batch_transfer
from uncork.training.tracing.step_info import step_device

BYTES = np.random.default_rng(5).integers(0, 256, size=(64, 4_000))


@pytest.fixture(scope="module")
def other() -> str:
    """A second TensorFlow server, behind a socket of this machine, in the place of a device."""
    server = tf.distribute.Server.create_local_server()
    tf.config.experimental_connect_to_host(server.target.removeprefix("grpc://"), job_name="other")
    return "/job:other/task:0/device:CPU:0"


def test_what_must_travel_is_timed(other):
    photos = np.tile(BYTES, (40, 1)).astype("float32")  # large beside what a call costs
    sent = measure_batch_transfer((photos, np.arange(64)), other)
    assert sent.device == "CPU:0 of another host"
    assert (sent.batch_bytes, sent.min_bytes) == (photos.size * 4, photos.size)
    assert sent.wall_s > 0
    assert sent.avoidable_share == 0.75
    assert measure_batch_transfer((BYTES / 255.0).astype("float32"), other).avoidable_share == 0.75


def test_numbers_that_are_no_bytes_need_all_of_theirs(other):
    for values in (BYTES / 300.0, -1.0 * BYTES, BYTES * 2.0, np.where(BYTES > 9, BYTES, np.nan)):
        sent = measure_batch_transfer(tf.constant(values, tf.float32), other)
        assert sent.min_bytes == sent.batch_bytes
        assert sent.avoidable_share == 1.0


@pytest.mark.parametrize("device", ["", "/device:CPU:0", "/job:localhost/replica:0/task:0/cpu:0"])
def test_what_is_here_already_need_not_travel(device):
    assert measure_batch_transfer(BYTES.astype("float32"), device) is None


def test_small_tensors_and_words_are_messages(other):
    assert (
        measure_batch_transfer((tf.zeros([100]), tf.constant(["a"] * 100_000), None), other) is None
    )


def test_a_model_is_where_its_weights_are(other):
    with tf.device(other):
        model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    assert "job:other" in step_device(model)


def test_a_step_is_where_its_variables_are(other):
    with tf.device(other):
        weight = tf.Variable(tf.zeros([2]))
    counter = tf.Variable(0)

    @tf.function
    def step():
        counter.assign_add(1)
        weight.assign_add(tf.ones([2]))

    step()
    assert "job:other" in step_device(step)
    assert step_device(len) == step_device(None) == ""
