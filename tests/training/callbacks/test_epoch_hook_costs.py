"""Hooks of epochs are timed without a trace of them outside of the process."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from training.models import X, Y, mlp
from uncork.training.callbacks.epoch_hook_costs import measure_epoch_callback_costs


class Evaluating(keras.callbacks.Callback):
    """In every fifth epoch, long at first."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append((epoch, logs["val_accuracy"], logs.get("val_auc") > 0.5))
        print(epoch, np.mean(self.model.get_weights()[0]))
        if not self.seen[1:]:
            time.sleep(0.2)
        elif epoch % 5 == 4:
            time.sleep(0.05)
        self.model.stop_training = True


class Slow(keras.callbacks.Callback):
    calls = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.calls += 1

    def on_epoch_end(self, epoch, logs=None):
        time.sleep(0.2)


class Scheduling(keras.callbacks.Callback):
    rates = (0.1, 0.2)

    def on_epoch_begin(self, epoch, logs=None):
        self.model.optimizer.learning_rate = self.rates[epoch]
        time.sleep(0.01)


class Leaving(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        time.sleep(0.01)
        if logs["loss"] < 1.5 and epoch:
            sys.exit()


class Writing(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_epoch_end(self, epoch, logs=None):
        self.path.write_text("epoch")


class Appending(keras.callbacks.Callback):
    """By a file that it has opened before."""

    def __init__(self, path):
        super().__init__()
        self.files = [path.open("a")]

    def on_epoch_end(self, epoch, logs=None):
        self.files[0].write(str(epoch))


class Storing(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.base = sqlite3.connect(path)

    def on_epoch_end(self, epoch, logs=None):
        self.base.execute("create table epochs (number)")
        self.base.commit()


class ByTensorFlow(keras.callbacks.Callback):
    """Which no audit hook sees."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_epoch_end(self, epoch, logs=None):
        tf.io.write_file(str(self.path), "epoch")


class Descriptor(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.number = os.open(path, os.O_WRONLY | os.O_CREAT)

    def on_epoch_end(self, epoch, logs=None):
        os.write(self.number, b"epoch")


class Endless(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        time.sleep(15)


class Tracing(keras.callbacks.Callback):
    """A loop over data, which only AutoGraph makes one of TensorFlow's."""

    def __init__(self, data):
        super().__init__()
        self.data = data
        self.total = None

    @tf.function
    def over(self, data):
        total = tf.constant(0.0)
        for x in data:
            total += tf.reduce_sum(x)
        return total

    def on_epoch_end(self, epoch, logs=None):
        self.total = float(self.over(self.data))


@pytest.fixture
def trained():
    made = mlp()
    made.fit(X, Y, verbose=0)
    return made


def costs(trained, *callbacks, **arguments):
    return measure_epoch_callback_costs(list(callbacks), trained, {"epochs": 20, **arguments})


def test_what_is_traced_and_read_in_the_first_epoch_is_not_asked_for_again(trained, capsys):
    callback = Evaluating()
    (cost,) = costs(trained, callback)
    assert (cost.name, cost.batch_s) == ("Evaluating", 0.0)
    assert 0.01 <= cost.epoch_s < 0.1
    assert cost.epoch_hook_at.rpartition(":")[0].endswith("test_epoch_hook_costs.py")
    assert [epoch for epoch, _, _ in callback.seen] == list(range(11))
    assert trained.stop_training is False
    assert capsys.readouterr().out == ""


def test_only_epochs_that_the_training_has(trained):
    (cost,) = costs(trained, Scheduling(), epochs=2)
    assert cost.epoch_s >= 0.01
    later = Evaluating()
    costs(trained, later, epochs=9, initial_epoch=7)
    assert [epoch for epoch, _, _ in later.seen] == [7, 8]


def test_slow_ones_are_called_as_often_as_there_is_time(trained, monkeypatch):
    monkeypatch.setattr(sys.modules["uncork.training.callbacks.epoch_hook_costs"], "_SECONDS", 0.3)
    callback = Slow()
    (cost,) = costs(trained, callback)
    assert callback.calls == 2
    assert cost.epoch_s >= 0.2


def test_one_that_leaves_is_timed_as_far_as_it_went(trained):
    (cost,) = costs(trained, Leaving())
    assert cost.epoch_s >= 0.01


def test_what_writes_is_left_out_and_writes_nothing(trained, tmp_path):
    log = tmp_path / "log"
    assert costs(trained, Writing(log), ByTensorFlow(log)) == ()
    assert list(tmp_path.iterdir()) == []
    descriptor = Descriptor(log)
    assert costs(trained, descriptor) == ()
    os.close(descriptor.number)
    assert log.read_bytes() == b""


@pytest.fixture
def alarm_of_nobody():
    """That of the tests' own time limit is put aside."""
    timer, before = signal.setitimer(signal.ITIMER_REAL, 0), signal.getsignal(signal.SIGALRM)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    yield
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    signal.signal(signal.SIGALRM, before)
    signal.setitimer(signal.ITIMER_REAL, *timer)


@pytest.mark.usefixtures("alarm_of_nobody")
def test_one_that_takes_too_long_is_cut_short(trained, monkeypatch):
    monkeypatch.setattr(sys.modules["uncork.training.callbacks.epoch_hook_costs"], "_MOST_S", 0.3)
    (cost,) = costs(trained, Endless())
    assert cost.is_lower_bound
    assert 0.3 <= cost.epoch_s < 10
    (cost,) = costs(trained, Slow())
    assert not cost.is_lower_bound


def test_functions_that_it_traces_are_converted(trained):
    callback = Tracing(tf.data.Dataset.range(5).map(lambda n: tf.cast(n, tf.float32)))
    (cost,) = costs(trained, callback)
    assert callback.total == 10.0
    assert not cost.is_lower_bound


def test_what_has_a_file_or_a_connection_open_is_not_called(trained, tmp_path):
    log = tmp_path / "log.csv"
    appending = Appending(log)
    assert costs(trained, appending, Storing(tmp_path / "base")) == ()
    appending.files[0].close()
    assert log.read_text() == ""
    with sqlite3.connect(tmp_path / "base") as base:
        assert base.execute("select count(*) from sqlite_master").fetchone() == (0,)
    with Path(tmp_path, "other").open("w") as other:
        given = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: other.write("x"))
        assert costs(trained, given) == ()


def test_hooks_that_were_given_to_keras_s_own_class_are_the_user_s(trained):
    slow = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: time.sleep(0.01))
    (cost,) = costs(trained, slow)
    assert cost.epoch_s >= 0.01


def test_others_have_none(trained):
    own = keras.callbacks.EarlyStopping(), keras.callbacks.LambdaCallback(on_epoch_end=print)
    assert costs(trained, *own) == ()
    assert measure_epoch_callback_costs(None, trained, {}) == ()
