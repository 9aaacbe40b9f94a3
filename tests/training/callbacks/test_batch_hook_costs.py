"""Callbacks are timed without a trace of them outside of the process."""

from __future__ import annotations

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from training.models import X, Y, mlp
from uncork.capture.sandbox.redirected_saves import redirect_saves
from uncork.training.callbacks.batch_hooks import measure_callback_costs


class Sleeping(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)
        print("batch", batch, logs["loss"])
        self.seen.append(np.mean(self.model.get_weights()[0]))


class Writing(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_train_batch_end(self, batch, logs=None):
        self.path.write_text(str(batch))


class WritingAtFirst(Writing):
    def on_train_begin(self, logs=None):
        self.path.write_text("begin")

    def on_train_batch_end(self, batch, logs=None):
        pass


class Tracing(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.update(1.0 / (1 + batch))

    @tf.function
    def update(self, decay):
        return decay * tf.reduce_sum(tf.ones(3))


class Moving(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.model.layers[0].kernel.assign_add(tf.ones_like(self.model.layers[0].kernel))


class Failing(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise KeyError("accuracy")


class OnceAnEpoch(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        raise AssertionError("never called")


@pytest.fixture
def model():
    made = mlp()
    made.fit(X, Y, verbose=0)
    return made


def costs(model, *callbacks):
    return measure_callback_costs(list(callbacks), model, {"epochs": 2})


def test_the_users_own_are_timed_in_silence(model, capsys):
    (cost,) = costs(model, Sleeping())
    assert cost.name == "Sleeping"
    assert 0.01 <= cost.batch_s < 1
    assert cost.tracing_s == 0
    assert cost.at.rpartition(":")[0].endswith("test_batch_hook_costs.py")
    assert capsys.readouterr().out == ""


def test_what_traces_is_told_apart(model):
    (cost,) = costs(model, Tracing())
    assert 0 < cost.tracing_s < cost.batch_s


@pytest.mark.parametrize("kind", [Writing, WritingAtFirst])
def test_what_writes_is_left_out_and_writes_nothing(kind, model, tmp_path):
    assert costs(model, kind(tmp_path / "log")) == ()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "log").write_text("may be written again")


def test_what_cannot_be_tried_is_left_out(model):
    assert costs(model, Failing(), OnceAnEpoch(), keras.callbacks.TerminateOnNaN()) == ()
    assert measure_callback_costs(None, model, {}) == ()


@pytest.mark.parametrize(("path", "only"), [("a.keras", False), ("a.weights.h5", True)])
def test_a_checkpoint_in_the_middle_of_an_epoch_is_saved_elsewhere(path, only, model, tmp_path):
    save = keras.callbacks.ModelCheckpoint(tmp_path / path, save_weights_only=only, save_freq=2)
    with redirect_saves(tmp_path / "own" / "saves") as saves:
        (cost,) = costs(model, save)
    assert cost.name == "ModelCheckpoint"
    assert cost.batch_s > 0
    assert list(tmp_path.iterdir()) == []
    assert not saves.counts
    assert not saves.suppressed


def test_one_in_ten_batches_costs_a_tenth(model, tmp_path):
    often, seldom = (
        keras.callbacks.ModelCheckpoint(tmp_path / "a.keras", save_freq=n) for n in (1, 1_000)
    )
    first, second = costs(model, often, seldom)
    assert second.batch_s < first.batch_s / 10


def test_hooks_that_were_given_to_keras_s_own_class_are_the_user_s(model):
    slow = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: time.sleep(0.01))
    (cost,) = costs(model, slow)
    assert 0.01 <= cost.batch_s < 1
    assert cost.at.rpartition(":")[0].endswith("test_batch_hook_costs.py")
    assert costs(model, keras.callbacks.LambdaCallback(on_epoch_end=print)) == ()


def test_a_backup_in_the_middle_of_an_epoch_is_timed(model, tmp_path):
    (cost,) = costs(model, keras.callbacks.BackupAndRestore(str(tmp_path / "b"), save_freq=5))
    assert cost.batch_s == pytest.approx(cost.action_s / 5)
    assert list(tmp_path.iterdir()) == []
