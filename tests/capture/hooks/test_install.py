"""Training calls in a live process: who reports what, and what must not be reported."""

from __future__ import annotations

import importlib
import inspect
import sys
import threading
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.eager import backprop

from capture.recorder import Recorder, at, line, make_step
from uncork.capture.base.listener import PassThroughListener
from uncork.capture.base.stop import StopScript
from uncork.capture.hooks.install import report_training_calls
from uncork.core.base.errors import PlanRefused, WrongUse
from uncork.pycode.frames.dataset_lines import source_line

HERE = Path(__file__)


class Batches(keras.utils.PyDataset):
    def __init__(self, data):
        super().__init__()
        self.data = data

    def __len__(self):
        return 6

    def __getitem__(self, index):
        x, y = self.data
        return x[4 * index : 4 * index + 4], y[4 * index : 4 * index + 4]


# fit


@pytest.mark.parametrize("kind", ["tf.data", "numpy", "pydataset", "generator"])
def test_fit_is_reported_with_its_arguments(kind, model, data, dataset):
    arguments = {
        "tf.data": {"x": dataset},
        "numpy": {"x": data[0], "y": data[1]},
        "pydataset": {"x": Batches(data)},
        "generator": {"x": (b for b in list(dataset)), "steps_per_epoch": 6},
    }[kind]
    recorder = Recorder()
    with report_training_calls(recorder):
        history = model.fit(**arguments, shuffle=kind == "numpy", verbose=0)
        expected = line(-1)
    (call,) = recorder.fits
    assert (call.index, call.at, call.model) == (0, at(expected), model)
    assert call.arguments["x"] is arguments["x"]
    assert (call.arguments["epochs"], call.arguments["verbose"]) == (1, 0)
    assert set(call.arguments) == set(inspect.signature(model.fit).parameters)
    assert isinstance(history, keras.callbacks.History)
    assert recorder.loops == []


def test_positional_arguments_and_result(model, data):
    class Replace(PassThroughListener):
        def fit(self, call):
            return call.arguments["x"] is data[0], call.arguments["y"] is data[1]

    with report_training_calls(Replace()):
        assert model.fit(*data) == (True, True)


def test_same_line_keeps_its_index(model, data, dataset):
    recorder = Recorder()
    with report_training_calls(recorder):
        model.fit(dataset, shuffle=False, verbose=0)
        for _ in range(2):
            model.fit(*data, verbose=0)
    assert [call.index for call in recorder.fits] == [0, 1, 1]


def test_keras_reports_wrong_arguments(model):
    recorder = Recorder()
    with report_training_calls(recorder), pytest.raises(TypeError, match="epoch_count"):
        model.fit(epoch_count=3)
    assert recorder.fits == []


def test_overridden_fit_reports_the_inner_call_once(dataset):
    class Own(keras.Sequential):
        def fit(self, *args, **kwargs):
            return super().fit(*args, **kwargs)

    model = Own([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    recorder = Recorder()
    with report_training_calls(recorder):
        model.fit(dataset, shuffle=False, verbose=0)
    assert len(recorder.fits) == 1


def test_fit_inside_a_callback_belongs_to_the_outer_one(model, dataset):
    inner = keras.Sequential([keras.layers.Dense(1)])
    inner.compile("sgd", "mse")

    class Nested(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            inner.fit(dataset, shuffle=False, verbose=0)
            for x, _ in dataset:
                inner(x)

    recorder = Recorder()
    with report_training_calls(recorder):
        model.fit(dataset, shuffle=False, verbose=0, callbacks=[Nested()])
    assert [call.model for call in recorder.fits] == [model]
    assert recorder.iterated == []


def test_the_compile_that_set_up_the_step_is_known(model, dataset):
    recorder = Recorder()
    with report_training_calls(recorder):
        model.compile("sgd", "mse")
        compiled = line(-1)
        model.fit(dataset, shuffle=False, verbose=0)
    assert [call.step_setup_at for call in recorder.fits] == [at(compiled)]


def test_where_the_dtype_policy_was_set_is_known(model, dataset):
    recorder = Recorder()
    try:
        with report_training_calls(recorder):
            model.fit(dataset, shuffle=False, verbose=0)
            keras.mixed_precision.set_global_policy("mixed_bfloat16")
            policy = line(-1)
            model.fit(dataset, shuffle=False, verbose=0)
    finally:
        keras.config.set_dtype_policy("float32")
    assert [call.policy_at for call in recorder.fits][1] == at(policy)


def test_a_compile_before_the_hooks_is_not(model, dataset):
    recorder = Recorder()
    with report_training_calls(recorder):
        model.fit(dataset, shuffle=False, verbose=0)
    assert [call.step_setup_at for call in recorder.fits] == [None]


# loops


@pytest.mark.parametrize("eager", [True, False])
def test_custom_loop(eager, model, dataset):
    step = make_step(model, keras.optimizers.Adam())
    step = step if eager else tf.function(step)
    recorder = Recorder()
    with report_training_calls(recorder):
        seen = 0
        for epoch in range(2):
            for x, y in dataset:
                step(x, y)
                seen += len(x)
            del epoch
        expected = line(-4)
    assert seen == 48
    assert [(call.index, call.at) for call in recorder.loops] == [(0, at(expected))] * 2
    first, second = (call.evidence for call in recorder.loops)
    assert (first.has_eager_step, first.steps_seen) == (eager, 1)
    begins = f":{step.__code__.co_firstlineno}" if eager else None
    assert (first.eager_at and first.eager_at.endswith(f"recorder.py{begins}")) == (eager or None)
    assert first.tape_calls_per_step >= 1
    assert (second.has_eager_step, second.steps_seen) == (eager, 1)
    assert all(0.0 < each.first_step_s < 600.0 for each in (first, second))


@pytest.mark.parametrize("wrap", [enumerate, lambda d: d.take(3), lambda d: d.as_numpy_iterator()])
def test_loops_around_the_dataset(wrap, model, dataset):
    recorder = Recorder()
    with report_training_calls(recorder):
        step = make_step(model, keras.optimizers.SGD())
        for element in wrap(dataset):
            x, y = element[1] if isinstance(element[1], tuple) else element
            step(x, y)
    assert len(recorder.loops) == 1


def test_next_by_hand_and_train_on_batch(model, dataset):
    recorder = Recorder()
    with report_training_calls(recorder):
        iterator = iter(dataset)
        expected = line(-1)
        for _ in range(3):
            model.train_on_batch(*next(iterator))
        for _ in range(3):
            iterator.get_next()
        with pytest.raises(tf.errors.OutOfRangeError):
            iterator.get_next()
    (call,) = recorder.loops
    assert call.at == at(expected)
    assert not call.evidence.has_eager_step


def test_pretraced_step_is_known_by_the_optimizer(model, dataset):
    recorder = Recorder()
    with report_training_calls(recorder):
        step = tf.function(make_step(model, keras.optimizers.SGD()))
        step(*next(iter(dataset)))
        for x, y in dataset:
            step(x, y)
    (call,) = recorder.loops
    assert call.evidence.tape_calls_per_step == 0


def test_hand_made_update_is_training(dataset):
    weight = tf.Variable(tf.zeros((4, 1)))
    recorder = Recorder()
    with report_training_calls(recorder):
        for x, y in dataset:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x @ weight - y) ** 2)
            weight.assign_sub(0.1 * tape.gradient(loss, weight))
    assert len(recorder.loops) == 1


def test_two_trainings_and_what_is_none(model, data, dataset):
    recorder = Recorder()
    with report_training_calls(recorder):
        step = make_step(model, keras.optimizers.SGD())
        for x, y in dataset:  # trains
            step(x, y)
        for x, _ in dataset:  # evaluates
            model(x)
        for x, y in dataset:  # explains: gradients, but no update
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_mean((model(x) - y) ** 2)
            tape.gradient(loss, x)
        for x, _ in dataset:  # evaluates inside and out
            model.evaluate(*data, verbose=0)
            model.predict(x, verbose=0)
        model.fit(dataset, shuffle=False, verbose=0)  # trains
    assert [(call.index, type(call).__name__) for call in recorder.loops + recorder.fits] == [
        (0, "LoopCall"),
        (1, "FitCall"),
    ]


def test_evaluation_inside_a_training_loop(model, dataset):
    recorder = Recorder()
    with report_training_calls(recorder):
        step = make_step(model, keras.optimizers.SGD())
        for x, y in dataset:
            step(x, y)
            for inner, _ in dataset.take(2):
                model(inner)
        expected = line(-4)
    assert [call.at for call in recorder.loops] == [at(expected)]


def test_loop_around_a_training_loop_is_none(model, dataset):
    recorder = Recorder()
    with report_training_calls(recorder):
        step = make_step(model, keras.optimizers.SGD())
        for _ in tf.data.Dataset.range(3):
            for x, y in dataset:
                step(x, y)
            expected = line(-2)
    assert [call.at for call in recorder.loops] == [at(expected)] * 3


def test_fit_in_a_loop_is_a_fit(model, dataset):
    recorder = Recorder()
    with report_training_calls(recorder):
        for x, y in dataset:
            model.fit(x, y, verbose=0)
    assert (len(recorder.fits), recorder.loops) == (6, [])


def test_generator_behind_a_training_loop_is_no_loop(model, dataset):
    def generate():
        for x, y in dataset.repeat():
            yield x.numpy(), y.numpy()

    recorder = Recorder()
    with report_training_calls(recorder):
        step = make_step(model, keras.optimizers.SGD())
        outer = tf.data.Dataset.from_generator(generate, output_signature=dataset.element_spec)
        for x, y in outer.take(8):
            step(x, y)
        expected = line(-2)
    assert recorder.iterated == [at(expected)]
    assert len(recorder.loops) == 1


def test_iteration_inside_a_function_is_tensorflows(dataset):
    @tf.function
    def total():
        result = 0.0
        for x, _ in dataset:
            result += tf.reduce_sum(x)
        return result

    recorder = Recorder()
    with report_training_calls(recorder):
        total()
    assert recorder.iterated == []


def test_iterator_passes_for_tensorflows_own(dataset):
    @tf.function
    def step(iterator):
        return next(iterator)

    plain = iter(dataset)
    with report_training_calls(Recorder()):
        iterator = iter(dataset)
        assert isinstance(iterator, type(plain))
        assert type(iterator).__name__ == type(plain).__name__
        assert iterator.element_spec == plain.element_spec
        assert step.get_concrete_function(iterator) is step.get_concrete_function(plain)
        np.testing.assert_equal(step(iterator)[0].numpy(), next(plain)[0].numpy())
        np.testing.assert_equal(next(iterator)[0].numpy(), next(plain)[0].numpy())
        np.testing.assert_equal(iterator.get_next()[0].numpy(), next(plain)[0].numpy())
        assert bool(iterator.get_next_as_optional().has_value())


def test_settled_iterator_is_tensorflows_own(dataset):
    with report_training_calls(Recorder()):
        iterator = iter(dataset.repeat())
        for _ in range(70):
            next(iterator)
    assert type(iterator) is type(iter(dataset))


def test_listener_feeds_the_rest_of_the_loop(model, dataset):
    class Feed(Recorder):
        def loop(self, call, first):
            self.rest = [float(x[0, 0]) for x, _ in first]
            return iter([*call.original(), "last"])

    feed = Feed()
    got = []
    with report_training_calls(feed):
        step = make_step(model, keras.optimizers.SGD())
        for element in dataset:
            got.append(element)
            if len(got) == 1:
                step(*element)
    values = [float(x[0, 0]) for x, _ in dataset]
    assert feed.rest == values[1:]
    assert [float(x[0, 0]) for x, _ in got[:-1]] == [values[0], *values]
    assert got[-1] == "last"


def test_a_fed_loop_may_hand_its_iterator_on(model, dataset):
    class Feed(Recorder):
        def loop(self, call, first):
            return iter(["last"])

    with report_training_calls(Feed()):
        step = make_step(model, keras.optimizers.SGD())
        iterator = iter(dataset)
        step(*next(iterator))
        assert next(iterator) == "last"
        assert bool(iterator.get_next_as_optional().has_value())
        with pytest.raises(AttributeError):
            _ = iterator.no_such_attribute


def grows(made, seconds):
    before, until = len(made), time.monotonic() + seconds
    while len(made) == before and time.monotonic() < until:
        time.sleep(0.01)
    return len(made) > before


@pytest.mark.parametrize("keeps", [False, True])
def test_what_a_fed_loop_no_longer_reads_is_not_read_ahead(keeps, model, dataset):
    made, ended = [], threading.Event()

    def rows():
        while not ended.wait(0.001):
            made.append(1)
            yield np.ones(4, "float32"), np.ones(1, "float32")

    class Feed(Recorder):
        def loop(self, call, first):
            self.kept = first if keeps else None
            return iter(["last"])

    specs = tuple(tf.TensorSpec(spec.shape[1:], spec.dtype) for spec in dataset.element_spec)
    endless = tf.data.Dataset.from_generator(rows, output_signature=specs).batch(4).prefetch(10_000)
    feed = Feed()
    with report_training_calls(feed):
        step = make_step(model, keras.optimizers.SGD())
        for element in endless:
            if element == "last":
                break
            step(*element)
    if keeps:
        assert grows(made, 30.0)
    else:  # calls that have begun end when the machine lets them; all it reads ahead takes longer
        assert not all(grows(made, 0.5) for _ in range(100))
    ended.set()  # a generator at work while Python ends may keep it from ending
    if keeps:
        assert list(feed.kept)


def test_listener_substitutes_the_dataset(dataset):
    class Short(Recorder):
        def dataset(self, dataset, at):
            super().dataset(dataset, at)
            return dataset.take(2)

    short = Short()
    with report_training_calls(short):
        assert len(list(dataset)) == 2
        expected = line(-1)
    assert short.iterated == [at(expected)]
    assert len(list(dataset)) == 6


def test_unwanted_loops_are_not_watched(dataset):
    class Deaf(Recorder):
        wants_loops = False

    with report_training_calls(Deaf()):
        watched = iter(dataset)
    assert type(watched) is type(iter(dataset))


def test_datasets_remember_their_lines_when_wanted():
    class Wants(PassThroughListener):
        wants_source_lines = True

    with report_training_calls(Wants()):
        dataset = tf.data.Dataset.range(3)
        expected = line(-1)
    assert source_line(dataset) == at(expected)


# stopping


class Stopping(Recorder):
    def fit(self, call):
        self.fits.append(call)
        raise StopScript

    def loop(self, call, first):
        self.loops.append(call)

        def feed():
            yield next(first)
            raise StopScript

        return feed()


def test_stop_ends_the_block(model, dataset):
    events = []
    with report_training_calls(Stopping()):
        try:
            model.fit(dataset)
        except Exception:
            events.append("taken for a failure")
        finally:
            events.append("finally")
        events.append("went on")
    assert events == ["finally"]


def test_stop_from_a_feed(model, dataset):
    seen = 0
    with report_training_calls(Stopping()):
        step = make_step(model, keras.optimizers.SGD())
        for x, y in dataset:
            step(x, y)
            seen += 1
        seen = -1
    assert seen == 2


def test_swallowed_stop_is_raised_again(model, dataset):
    stopping = Stopping()
    reached = []
    with report_training_calls(stopping):
        try:
            model.fit(dataset)
        except BaseException:
            reached.append("swallowed")
        for _ in dataset:
            reached.append("iterated")
        reached.append("after")
    assert reached == ["swallowed"]
    assert len(stopping.fits) == 1


@pytest.mark.parametrize("end", [SystemExit(1), ValueError("history is missing")])
def test_what_the_script_makes_of_a_stop_does_not_count(end, model, dataset):
    with report_training_calls(Stopping()):
        try:
            model.fit(dataset)
        except BaseException:
            raise end from None


def test_interrupt_comes_through_a_stop(model, dataset):
    def script():
        try:
            model.fit(dataset)
        finally:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), report_training_calls(Stopping()):
        script()


def test_error_of_uncork_survives_the_scripts_handlers(model, dataset):
    class Refusing(PassThroughListener):
        def fit(self, call):
            raise PlanRefused("does not fit")

    def script():
        try:
            model.fit(dataset)
        except Exception:
            pytest.fail("the script took it for its own")

    with pytest.raises(PlanRefused, match="does not fit"), report_training_calls(Refusing()):
        script()


def test_foreign_keras_is_refused(write, monkeypatch, tmp_path):
    for folder in ("tf_keras", "tf_keras/src", "tf_keras/src/engine"):
        write("", f"{folder}/__init__.py")
    write("class Model:\n    def fit(self): pass\n", "tf_keras/src/engine/training.py")
    monkeypatch.syspath_prepend(str(tmp_path))

    def script():
        importlib.import_module("tf_keras.src.engine.training").Model().fit()

    refused = pytest.raises(WrongUse, match=r"test_install.py:\d+ runs on Keras 2")
    with refused, report_training_calls(PassThroughListener()):
        script()
    script()


def test_foreign_keras_trains_where_nobody_has_to_look_into_it(write, monkeypatch, tmp_path):
    write("", "tf_keras/__init__.py")
    write("", "tf_keras/src/__init__.py")
    write("", "tf_keras/src/engine/__init__.py")
    write("class Model:\n    def fit(self): return 3\n", "tf_keras/src/engine/training.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "tf_keras"]:
        monkeypatch.delitem(sys.modules, name)  # of the test before
    idle = PassThroughListener()
    idle.refuses_foreign = False
    with report_training_calls(idle):
        assert importlib.import_module("tf_keras.src.engine.training").Model().fit() == 3


# tidiness


def test_everything_is_put_back(model, dataset):
    def patched():
        return (
            dataset_ops.DatasetV2.__iter__,
            backprop.GradientTape.gradient,
            type(model).fit,
            type(model).train_on_batch,
            keras.optimizers.Optimizer.apply,
        )

    before = patched()
    with report_training_calls(PassThroughListener()):
        assert dataset_ops.DatasetV2.__iter__ is not before[0]
    assert patched() == before


def test_iterators_outlive_the_hooks(model, dataset):
    recorder = Recorder()
    with report_training_calls(recorder):
        iterator = iter(dataset)
        next(iterator)
    step = make_step(model, keras.optimizers.SGD())
    for x, y in iterator:
        step(x, y)
    assert recorder.loops == []
    assert type(iterator) is type(iter(dataset))


def test_user_errors_come_through(model, dataset):
    def script():
        for _ in dataset:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), report_training_calls(Recorder()):
        script()


def test_arguments_of_functions_may_have_any_name(dataset):
    @tf.function
    def applied(function, x, step=1, model=0):
        return function(x) + step + model

    with report_training_calls(Recorder()):
        for x, _ in dataset.take(1):
            found = applied(function=tf.zeros_like, x=x, step=2, model=3)
    assert found.numpy() == pytest.approx(5.0)
