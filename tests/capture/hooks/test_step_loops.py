"""Loops that call their step on what is no watched dataset: which are seen, and which are not."""

from __future__ import annotations

import threading
import time

import keras
import pytest
import tensorflow as tf

from capture.recorder import Recorder, at, line, make_step
from uncork.capture.base.listener import StepCall
from uncork.capture.base.stop import StopScript
from uncork.capture.hooks.install import report_training_calls
from uncork.capture.hooks.training_evidence import TrainingEvidence


@pytest.fixture
def step(model):
    return tf.function(make_step(model, keras.optimizers.Adam()))


class Replacing(Recorder):
    """Runs each step as many times as it is told."""

    def __init__(self, times):
        super().__init__()
        self.times = times
        self.fed = []

    def step_loop(self, call: StepCall):
        super().step_loop(call)
        return self.instead

    def instead(self, call: StepCall):
        self.fed.append(call)
        for _ in range(self.times):
            found = call.original(*call.args, **call.kwargs)
        return found


def batches(data):
    for begin in range(0, 24, 4):
        yield tuple(part[begin : begin + 4] for part in data)


def test_arrays(step, data):
    recorder = Recorder()
    x, y = data
    with report_training_calls(recorder):
        for begin in range(0, 24, 4):
            step(x[begin : begin + 4], y[begin : begin + 4])
        expected = line(-1)
    (call,) = recorder.steps
    assert (call.index, call.at) == (0, at(expected))
    assert [part.shape for part in call.args] == [(4, 4), (4, 1)]
    assert recorder.loops == []


def test_a_generator_and_train_on_batch(model, data):
    recorder = Recorder()
    with report_training_calls(recorder):
        for x, y in batches(data):
            model.train_on_batch(x, y=y)
    (call,) = recorder.steps
    assert set(call.kwargs) == {"y"}


def test_a_loop_inside_a_function_is_seen_before_it_runs(model, data):
    recorder, optimizer, steps = Recorder(), keras.optimizers.SGD(), []
    optimizer.build(model.trainable_variables)
    one_step = make_step(model, optimizer)

    @tf.function
    def train_epoch(batches):
        for x, y in batches:
            one_step(x, y)

    @tf.function
    def evaluate(batches):
        loss = 0.0
        for x, y in batches:
            loss += tf.reduce_mean((model(x) - y) ** 2)
        return loss

    def reached(call):
        recorder.steps.append(call)
        steps.append(int(optimizer.iterations.numpy()))

    recorder.step_loop = reached
    batched = tf.data.Dataset.from_tensor_slices(data).batch(4)
    with report_training_calls(recorder):
        evaluate(batched)
        train_epoch(batched)
        expected = line(-1)
        evaluate(batches=batched)
        train_epoch(batched)
    (call,) = recorder.steps
    assert call.at == at(expected)
    assert call.args == (batched,)
    assert steps == [0]
    assert recorder.iterated == [at(expected + n) for n in (-1, 0, 2, 3)]
    assert int(optimizer.iterations.numpy()) == 12


def test_a_function_is_given_the_listener_s_dataset(data):
    recorder = Recorder()
    recorder.dataset = lambda dataset, at: dataset.take(2)
    count = tf.function(lambda batches: batches.reduce(0, lambda n, _: n + 1))
    batched = tf.data.Dataset.from_tensor_slices(data).batch(4)
    with report_training_calls(recorder):
        assert int(count(batched)) == 2
    assert int(count(batched)) == 6


@pytest.mark.parametrize("update", ["apply", "apply_gradients"])
def test_an_eager_step_is_known_by_its_update(update, model, data):
    recorder = Recorder()
    optimizer = keras.optimizers.SGD()
    with report_training_calls(recorder):
        for x, y in batches(data):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x) - y) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            if update == "apply":
                optimizer.apply(gradients, model.trainable_variables)
            else:
                pairs = zip(gradients, model.trainable_variables, strict=True)
                optimizer.apply_gradients(pairs)
                expected = line(-1)
    (call,) = recorder.steps
    assert call.is_eager
    assert call.eager_at is not None
    if update == "apply_gradients":
        assert call.at == at(expected)


def test_eager_training_inside_keras_is_its_own_business(model, data):
    recorder = Recorder()
    model.compile("adam", "mse", run_eagerly=True)
    with report_training_calls(recorder):
        model.fit(*data, batch_size=4, verbose=0)
        for x, y in batches(data):
            model.train_on_batch(x, y)
    (call,) = recorder.steps
    assert not call.is_eager


def test_several_datasets_in_one_statement(step, data):
    recorder = Recorder()
    datasets = [tf.data.Dataset.from_tensor_slices(part).batch(4) for part in data]
    with report_training_calls(recorder):
        for x, y in zip(*datasets, strict=True):
            step(x, y)
    assert len(recorder.steps) == 1
    assert recorder.loops == []


def test_a_distributed_dataset(data):
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(4)
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.SGD()
    replica_step = make_step(model, optimizer)
    step = tf.function(lambda x, y: strategy.run(replica_step, (x, y)))
    recorder = Recorder()
    with report_training_calls(recorder):
        for x, y in strategy.experimental_distribute_dataset(dataset):
            step(x, y)
    assert len(recorder.steps) == 1


def test_a_loop_over_one_dataset_is_left_to_it(step, data):
    recorder = Recorder()
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(4)
    with report_training_calls(recorder):
        for _ in range(2):
            for x, y in dataset:
                step(x, y)
    assert len(recorder.loops) == 2
    assert recorder.steps == []


def test_what_does_not_train_is_no_step(model, data):
    recorder = Recorder()
    predict = tf.function(model)
    with report_training_calls(recorder):
        for x, _ in batches(data):
            predict(x)
        model.fit(*data, verbose=0)
        model.evaluate(*data, verbose=0)
    assert recorder.steps == []


def test_accumulated_gradients(model, data):
    recorder = Recorder()
    optimizer = keras.optimizers.SGD()
    optimizer.build(model.trainable_variables)
    sums = [tf.Variable(tf.zeros_like(v)) for v in model.trainable_variables]
    count = tf.Variable(0)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        for total, gradient in zip(
            sums, tape.gradient(loss, model.trainable_variables), strict=True
        ):
            total.assign_add(gradient)
        if count.assign_add(1) % 2 == 0:
            optimizer.apply(sums, model.trainable_variables)

    with report_training_calls(recorder):
        for x, y in batches(data):
            step(x, y)
    assert len(recorder.steps) == 1


def test_steps_in_turn_are_not_taken_apart(data):
    recorder = Recorder()
    with report_training_calls(recorder):
        steps = []
        for _ in range(2):
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
            steps.append(tf.function(make_step(model, keras.optimizers.SGD())))
        for x, y in batches(data):
            for step in steps:
                step(x, y)
    assert recorder.steps == []


def test_numbers_of_trainings_do_not_count_other_functions(step, model, data):
    recorder = Recorder()
    predict = tf.function(model)
    with report_training_calls(recorder):
        for x, y in batches(data):
            predict(x)
            step(x, y)
        model.fit(*data, verbose=0)
    assert [call.index for call in recorder.steps] == [0]
    assert [call.index for call in recorder.fits] == [1]


def test_the_listener_is_asked_in_place_of_each_further_step(step, data):
    recorder = Replacing(times=3)
    with report_training_calls(recorder):
        for x, y in batches(data):
            loss = step(x, y)
    assert isinstance(float(loss), float)
    assert [call.at for call in recorder.fed] == [recorder.steps[0].at] * 4


def test_a_stop_ends_the_loop(step, data):
    class Stopping(Recorder):
        def step_loop(self, call):
            raise StopScript

    taken = 0
    with report_training_calls(Stopping()):
        for x, y in batches(data):
            step(x, y)
            taken += 1
    assert taken == 2


def test_the_class_is_put_back(step):
    kind = type(step)
    before = kind.__call__
    with report_training_calls(Recorder()):
        assert kind.__call__ is not before
    assert kind.__call__ is before


def test_a_loop_whose_body_reads_another_dataset_is_left_as_it_is(data):
    """Fed for ever, the one would outlive the other."""
    labelled = tf.data.Dataset.from_tensor_slices(data).batch(4)
    others = tf.data.Dataset.from_tensor_slices(data[0]).batch(4)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    training = make_step(model, keras.optimizers.Adam())
    recorder, steps = Recorder(), 0
    with report_training_calls(recorder):
        beside = iter(others)
        for x, y in labelled:
            training(x + 0 * next(beside), y)
            steps += 1
    assert steps == 6
    assert recorder.loops == []
    assert len(recorder.steps) == 1


def test_a_training_behind_another_one_has_its_own_step(data):
    """However many gradients were computed before."""
    batches = tf.data.Dataset.from_tensor_slices(data).batch(4)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    first, second = (make_step(model, keras.optimizers.Adam()) for _ in range(2))

    def search():
        for x, y in batches.repeat().take(80):
            first(x, y)

    def train():
        for x, y in batches:
            second(x, y)

    recorder = Recorder()
    with report_training_calls(recorder):
        search()
        train()
    assert [call.evidence.eager_codes[1] for call in recorder.loops] == [
        search.__code__,
        train.__code__,
    ]


def test_functions_that_are_to_run_as_python_are_not_traced(model, data):
    optimizer, seen = keras.optimizers.SGD(), []
    optimizer.build(model.trainable_variables)
    step = make_step(model, optimizer)

    @tf.function
    def train_epoch(batches):
        for x, y in batches:
            seen.append(step(x, y))

    tf.config.run_functions_eagerly(True)
    try:
        with report_training_calls(Recorder()):
            train_epoch(tf.data.Dataset.from_tensor_slices(data).batch(4))
    finally:
        tf.config.run_functions_eagerly(False)
    assert len([float(loss) for loss in seen]) == 6


def test_optimizers_may_be_met_in_other_threads_meanwhile():
    evidence, kept = TrainingEvidence(), []

    class Slow:
        @property
        def _iterations(self):
            time.sleep(1e-4)  # as reading a variable does, which lets others run
            raise AttributeError

    def meet():
        for _ in range(100):
            kept.append(Slow())
            evidence.add_optimizer(kept[-1])
            time.sleep(1e-4)

    other = threading.Thread(target=meet)
    other.start()
    while other.is_alive():
        evidence.counts()
    assert evidence.counts().updates == 0
    assert len(kept) == 100
