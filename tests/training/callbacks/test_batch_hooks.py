from __future__ import annotations

import keras
import pytest

from uncork.training.callbacks.batch_hooks import batch_callback_names, batch_callbacks

callbacks = keras.callbacks


class Early(callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        pass


class Late(callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        pass


class Old(callbacks.Callback):
    def on_batch_end(self, batch, logs=None):
        pass


class Inheriting(Late):
    pass


class Epochs(callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        pass


class OnTests(callbacks.Callback):
    def on_test_batch_end(self, batch, logs=None):
        pass


@pytest.mark.parametrize(
    "make",
    [
        Early,
        Late,
        Old,
        Inheriting,
        OnTests,
        callbacks.TerminateOnNaN,
        lambda: callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None),
        lambda: callbacks.ModelCheckpoint("x.keras", save_freq=10),
        lambda: callbacks.BackupAndRestore("x", save_freq=10),
        lambda: callbacks.TensorBoard("x", update_freq="batch"),
        lambda: callbacks.TensorBoard("x", update_freq=5),
        lambda: callbacks.TensorBoard("x", profile_batch=2),
    ],
)
def test_what_sees_every_batch_is_named(make):
    callback = make()
    assert batch_callback_names([callback]) == (type(callback).__name__,)


@pytest.mark.parametrize(
    "make",
    [
        Epochs,
        callbacks.Callback,
        callbacks.History,
        callbacks.ProgbarLogger,
        callbacks.EarlyStopping,
        callbacks.ReduceLROnPlateau,
        lambda: callbacks.CSVLogger("x.csv"),
        lambda: callbacks.LearningRateScheduler(lambda epoch: 0.1),
        lambda: callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: None),
        lambda: callbacks.ModelCheckpoint("x.keras"),
        lambda: callbacks.TensorBoard("x"),
    ],
)
def test_what_acts_once_an_epoch_is_left_out(make):
    assert batch_callback_names([make()]) == ()


def test_any_way_of_giving_them():
    assert batch_callback_names(None) == ()
    assert batch_callback_names([]) == ()
    assert batch_callback_names(Late()) == ("Late",)
    assert batch_callback_names((Early(), Epochs(), Late())) == ("Early", "Late")
    assert batch_callback_names(callbacks.CallbackList([Late()], add_history=True)) == ("Late",)


def test_what_sees_batches_of_the_validation_alone_takes_no_time_of_a_step():
    assert batch_callbacks([OnTests(), Late()])[0].__class__ is Late


class EachHundredth(callbacks.ModelCheckpoint):
    """As Keras's own it acts once an epoch; the user's hook acts on batches."""

    def on_train_batch_end(self, batch, logs=None):
        pass


class Noting(callbacks.History):
    def on_train_batch_end(self, batch, logs=None):
        pass


class Renamed(callbacks.ModelCheckpoint):
    """Changes nothing about batches."""

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)


@pytest.mark.parametrize(
    ("make", "acts"),
    [
        (lambda: EachHundredth("x.keras"), True),
        (Noting, True),
        (lambda: Renamed("x.keras"), False),
    ],
)
def test_hooks_of_the_user_s_in_a_callback_of_keras_s_are_seen(make, acts):
    assert bool(batch_callback_names([make()])) is acts
