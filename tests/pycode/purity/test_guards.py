from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.pycode.purity.guards import StateGuards, UnguardedError

RATE = 0.5
HISTORY: list[float] = []
NAMES = {"a": 1}
WEIGHTS = np.ones(4)
LARGE = np.ones(10_000)
MANY = list(range(1_000))
SETTINGS = SimpleNamespace(scale=2.0, unread=1)


class Trainer:
    temperature = 1.0

    def __init__(self):
        self.count = 0
        self.unread = 0
        self.loss = keras.losses.MeanSquaredError()

    def step(self, x):
        return self.scaled(x) / self.temperature

    def scaled(self, x):
        return x * (self.count + 1)


@pytest.fixture
def trainer():
    return Trainer()


def reads_global(x):
    return x * RATE


def reads_containers(x):
    return x * len(HISTORY) * NAMES["a"] * WEIGHTS[0]


def reads_setting(x):
    return x * SETTINGS.scale


def calls_another(x, *, factor=3):
    return reads_global(x) * factor


@pytest.mark.parametrize(
    ("function", "change", "named"),
    [
        (reads_global, lambda patch: patch.setitem(globals(), "RATE", 0.25), "RATE"),
        (calls_another, lambda patch: patch.setitem(globals(), "RATE", 0.25), "RATE"),
        (reads_containers, lambda patch: patch.setitem(globals(), "HISTORY", [1.0]), "HISTORY"),
        (reads_containers, lambda patch: patch.setitem(NAMES, "a", 2), "NAMES"),
        (reads_containers, lambda patch: patch.setitem(NAMES, "b", 1), "NAMES"),
        (reads_setting, lambda patch: patch.setattr(SETTINGS, "scale", 3.0), "scale"),
        (reads_global, lambda patch: patch.delitem(globals(), "RATE"), "RATE"),
    ],
)
def test_what_changes_is_named(monkeypatch, function, change, named):
    guards = StateGuards(function)
    assert guards.find_change() is None
    change(monkeypatch)
    assert guards.find_change() == named
    monkeypatch.undo()
    assert guards.find_change() is None


def test_entries_that_change_in_place():
    guards = StateGuards(reads_containers)
    HISTORY.append(1.0)
    assert guards.find_change() == "HISTORY"
    HISTORY.pop()
    assert guards.find_change() is None
    WEIGHTS[0] = 7
    assert guards.find_change() == "WEIGHTS"
    WEIGHTS[0] = 1
    assert guards.find_change() is None


def test_an_equal_number_is_the_same(monkeypatch):
    guards = StateGuards(reads_global)
    monkeypatch.setitem(globals(), "RATE", float("0.5"))
    assert guards.find_change() is None
    monkeypatch.setitem(globals(), "RATE", np.float64(0.5))
    assert guards.find_change() == "RATE"


def test_what_is_not_read_may_change(monkeypatch):
    guards = StateGuards(reads_setting)
    monkeypatch.setattr(SETTINGS, "unread", 2)
    monkeypatch.setitem(globals(), "RATE", 9.0)
    assert guards.find_change() is None


def test_attributes_of_an_object_of_the_users(trainer, monkeypatch):
    guards = StateGuards(trainer.step)
    trainer.unread += 1
    assert guards.find_change() is None
    trainer.count += 1
    assert guards.find_change() == "count"
    trainer.count -= 1
    monkeypatch.setattr(Trainer, "temperature", 2.0)
    assert guards.find_change() == "temperature"


def test_closures():
    held = 1

    def step(x):
        return x * held

    guards = StateGuards(step)
    assert guards.find_change() is None
    held = 2
    assert guards.find_change() == "held"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda model: setattr(model.layers[0], "trainable", False), "_trainable"),
        (lambda model: setattr(model.layers[1], "rate", 0.25), "rate"),
    ],
)
def test_what_keras_reads_of_layers(change, named):
    model = keras.Sequential([keras.layers.Dense(2), keras.layers.Dropout(0.5)])
    model.build((None, 3))
    optimizer = keras.optimizers.Adam()

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    step(tf.ones((2, 3)))
    guards = StateGuards(step)
    step(tf.ones((2, 3)))
    assert guards.find_change() is None  # weights, slots and seeds are TensorFlow's
    change(model)
    assert guards.find_change() == named


def reads_large(x):
    return x * LARGE


def reads_many(x):
    return x * MANY[0]


def reads_clock(x):
    return x * time.time()


def draws(x):
    return x * random.random()


GENERATOR = np.random.default_rng(0)
OPEN = iter([1, 2])


def draws_from_a_generator(x):
    return x * GENERATOR.normal()


def reads_iterator(x):
    return x * next(OPEN)


def imports_the_clock(x):
    import time as clock  # noqa: PLC0415

    return x * clock.time()


LOG = Path(__file__).open()  # noqa: SIM115


def writes_to_what_is_open(x):
    LOG.write("so far")
    return x


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (reads_large, "'LARGE' is a NumPy array"),
        (reads_many, "'MANY' has 1000 entries"),
        (reads_clock, "'time' returns a different value"),
        (draws, "'random' returns a different value"),
        (draws_from_a_generator, "'GENERATOR' samples random numbers"),
        (reads_iterator, "'OPEN' is a 'list_iterator'"),
        (imports_the_clock, "'time' returns a different value"),
        (writes_to_what_is_open, "'LOG' is a"),
    ],
)
def test_what_cannot_be_watched_is_refused(function, words):
    with pytest.raises(UnguardedError, match=words):
        StateGuards(function)


def test_names_of_attributes_are_no_globals():
    """``x.LARGE`` has nothing to do with a global of that name."""
    StateGuards(lambda x: x.LARGE)


def test_code_is_told_apart():
    assert StateGuards(reads_global).code_digest == StateGuards(reads_global).code_digest
    assert StateGuards(reads_global).code_digest != StateGuards(reads_setting).code_digest
    assert StateGuards(calls_another).code_digest != StateGuards(reads_global).code_digest


def test_code_is_the_same_wherever_it_stands():
    """Also that of a class in a function, which Python 3.13 tells its first line."""
    source = "def made():\n    class Scale:\n        by = 2\n    return Scale.by"
    found = {}
    for above in ("", "# a comment\n"):
        names: dict[str, object] = {}
        exec(compile(above + source, "train.py", "exec"), names)
        found[above] = StateGuards(names["made"]).code_digest
    assert len(set(found.values())) == 1


def test_a_look_takes_microseconds(trainer):
    guards = StateGuards(trainer.step)
    begin = time.thread_time()
    for _ in range(1_000):
        guards.find_change()
    assert time.thread_time() - begin < 0.5


def counts_its_calls(x):
    counts_its_calls.calls += 1
    return x


def reads_by_text(x):
    return x * getattr(SETTINGS, "scale")  # noqa: B009


def test_attributes_of_a_function_itself():
    counts_its_calls.calls = 0
    guards = StateGuards(counts_its_calls)
    assert guards.find_change() is None
    counts_its_calls(1)
    assert guards.find_change() == "calls"


def test_attributes_looked_up_by_text(monkeypatch):
    guards = StateGuards(reads_by_text)
    monkeypatch.setattr(SETTINGS, "scale", 3.0)
    assert guards.find_change() == "scale"


class Long:
    """Only some of its methods have to do with a step."""

    def __init__(self):
        self.rate, self.begin, self.epoch = 0.5, time.time(), 0

    def train(self):
        self.epoch += 1
        return random.random() + time.time()

    def step(self, x):
        return self.scaled(x)

    def scaled(self, x):
        return x * self.rate


def test_methods_that_a_step_does_not_call_do_not_count():
    long = Long()
    guards = StateGuards(long.step)
    long.train()
    assert guards.find_change() is None
    long.rate = 0.25
    assert guards.find_change() == "rate"


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model.optimizer, "learning_rate", SCHEDULE),
        lambda model: setattr(model.layers[0].kernel_regularizer, "l2", 0.5),
        lambda model: model.compile("sgd", "mse"),
        lambda model: model.add(keras.layers.Dense(1)),
        lambda model: setattr(model.optimizer, "clipnorm", 1.0),
    ],
)
def test_what_keras_reads_by_reference(change):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, kernel_regularizer="l2")])
    model.compile(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 10)), "mse")

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((y - model(x, training=True)) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    step(tf.ones((2, 3)), tf.ones((2, 2)))
    guards = StateGuards(step)
    step(tf.ones((2, 3)), tf.ones((2, 2)))
    assert guards.find_change() is None
    change(model)
    assert guards.find_change() is not None


SCHEDULE = keras.optimizers.schedules.CosineDecay(0.2, 20)


class Stepper:
    def __init__(self):
        self.one, self.two, self.trainer = 1, 2, Trainer()

    def first(self, x):
        return self.second(x) * self.one

    def second(self, x):
        return self.trainer.step(x) * self.two


def test_names_that_are_met_while_an_object_is_looked_at():
    stepper = Stepper()
    guards = StateGuards(Stepper.first, stepper)
    assert guards.find_change() is None
    stepper.trainer.count = 3
    assert guards.find_change() == "count"


def skips(x):
    try:
        return tf.debugging.check_numerics(x, "bad")
    except tf.errors.InvalidArgumentError:
        return tf.zeros([])


def swallows(x):
    try:
        return tf.debugging.check_numerics(x, "bad")
    except:  # noqa: E722
        return tf.zeros([])


def suppresses(x):
    with contextlib.suppress(tf.errors.InvalidArgumentError):
        return tf.debugging.check_numerics(x, "bad")
    return tf.zeros([])


def lets_pass(x):
    try:
        with tf.name_scope("inside"):
            return x + 1
    finally:
        x = None


def skips_twice(x):
    return 2 * skips(x)


@pytest.mark.parametrize("function", [skips, swallows, suppresses, skips_twice])
def test_a_step_that_catches_errors_is_no_graph(function):
    with pytest.raises(UnguardedError, match="catches errors"):
        StateGuards(function)


def test_what_lets_errors_pass_may_be_one():
    assert StateGuards(lets_pass).find_change() is None


class OfALibrary:
    """Looks up what it is asked for, as flags and many a configuration do."""

    def __init__(self):
        self._inner = {"kl_weight": 0.1}

    def __getattr__(self, name):
        return self._inner[name]


OfALibrary.__module__ = "some_library"


def test_what_looks_up_its_answers_cannot_be_watched(monkeypatch):
    monkeypatch.setattr("uncork.pycode.purity.guards.is_user_class", lambda _: False)
    settings = OfALibrary()
    with pytest.raises(UnguardedError, match="computes its attributes"):
        StateGuards(lambda: settings.kl_weight)


class Settings(dict):
    """Entries, and attributes beside them."""


def test_attributes_of_a_container_count():
    settings = Settings(a=1)
    settings.rate = 0.1
    guards = StateGuards(lambda: (settings["a"], settings.rate))
    assert guards.find_change() is None
    settings.rate = 0.2
    assert guards.find_change() == "rate"


def test_modules_of_a_folder_without_an_init_are_the_user_s(tmp_path, monkeypatch):
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "settings.py").write_text("RATE = 0.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    import bare.settings  # noqa: PLC0415

    guards = StateGuards(lambda: bare.settings.RATE)
    bare.settings.RATE = 0.2
    assert guards.find_change() == "RATE"


class Setting(NamedTuple):
    rate: float
    widths: list[int]


def test_fields_of_a_named_tuple_are_read():
    setting = Setting(0.1, [4])
    guards = StateGuards(lambda: (setting.rate, setting.widths))
    assert guards.find_change() is None
    setting.widths.append(8)
    assert guards.find_change() is not None


class Computes:
    def __init__(self):
        self._rate = 0.1

    @property
    def rate(self):
        return self._rate


class Kept:
    """Keeps a value for its owner, elsewhere."""

    def __get__(self, owner, kind=None):
        return 0.1

    def __set__(self, owner, value):
        raise AttributeError


class Describes:
    rate = Kept()


class Redirects:
    def __getattribute__(self, name):
        return 0.1 if name == "rate" else object.__getattribute__(self, name)


@pytest.mark.parametrize("kind", [Computes, Describes, Redirects])
def test_other_ways_to_look_up_an_answer(kind, monkeypatch):
    monkeypatch.setattr("uncork.pycode.purity.guards.is_user_class", lambda _: False)
    settings = kind()
    with pytest.raises(UnguardedError, match="computes its attributes"):
        StateGuards(lambda: settings.rate)
