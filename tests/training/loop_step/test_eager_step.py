"""Steps of real models, watched and run as graphs."""

from __future__ import annotations

import random
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.training.loop_step.eager_step import EagerStep
from uncork.training.loop_step.graph_state import GraphState
from uncork.training.loop_step.mode import StepMode

RATE = 1.0
NOTES = SimpleNamespace(count=0)
LOSSES: list[float] = []
X, Y = tf.random.stateless_normal((8, 3), (1, 2)), tf.random.stateless_normal((8, 1), (3, 4))


class Training:
    def __init__(self):
        keras.utils.set_random_seed(1)
        self.model = keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.Dense(8, activation="relu"),
                keras.layers.Dropout(0.5),
                keras.layers.BatchNormalization(),
                keras.layers.Dense(1),
            ]
        )
        self.optimizer = keras.optimizers.Adam(0.01)
        self.mean = keras.metrics.Mean()

    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = RATE * tf.reduce_mean((y - self.model(x, training=True)) ** 2)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        self.mean.update_state(loss)
        return {"loss": loss, "nothing": None}


@pytest.fixture
def training():
    return Training()


def told(heard):
    return lambda how, why: heard.append(why)


def taken_over(function, heard=lambda how, why: None):
    """Two calls have been watched at most; from now on it is a graph where it may."""
    step = EagerStep(function, heard)
    function(X, Y)
    function(X, Y)
    step.mode = StepMode.GRAPH
    return step


def trained(training, steps=6):
    losses = [float(training.step(X, Y)["loss"]) for _ in range(steps)]
    return losses, [v.numpy() for v in training.model.variables]


@pytest.fixture
def given_back():
    """The class's own method must not stay taken over for the tests that follow."""
    code = Training.step.__code__
    yield
    Training.step.__code__ = code


def test_the_same_weights_and_losses(given_back):
    as_written = trained(Training(), 7)
    training = Training()
    step = EagerStep(Training.step)
    first = [float(training.step(X, Y)["loss"]) for _ in range(2)]  # the first one builds
    assert step.refusal == ""
    step.mode = StepMode.GRAPH
    losses, weights = trained(training, 5)
    assert step.graph_function().experimental_get_tracing_count() == 1
    np.testing.assert_allclose([*first, *losses], as_written[0], rtol=1e-5)
    for ours, theirs in zip(weights, as_written[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_another_shape_is_watched_and_traced_once(training, given_back):
    step = EagerStep(Training.step)
    training.step(X, Y)
    training.step(X, Y)
    step.mode = StepMode.GRAPH
    for _ in range(3):
        training.step(X, Y)
        training.step(X[:5], Y[:5])
    assert step.graph_function().experimental_get_tracing_count() == 2
    assert step.refusal == ""


def test_what_it_reads_may_change_between_calls(monkeypatch):
    def step(x, y):
        return tf.reduce_mean(x - y) * RATE

    took = taken_over(step)
    before = float(step(X, Y))
    monkeypatch.setitem(globals(), "RATE", 3.0)
    assert float(step(X, Y)) == pytest.approx(3 * before)
    assert float(step(X, Y)) == pytest.approx(3 * before)
    assert took.refusal == ""


def printing(x, y):
    print("so far")
    return x + y


def counting(x, y):
    NOTES.count += 1
    return x + y


def collecting(x, y):
    LOSSES.append(1.0)
    return x + y


def drawing(x, y):
    return x + y * random.random()


def drawing_with_numpy(x, y):
    return x + y * np.random.normal()


def returning_a_number(x, y):
    return float(tf.reduce_mean(x + y))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (printing, "does more than compute: print"),
        (counting, "changes 'count' in each step"),
        (collecting, "changes 'LOSSES' in each step"),
        (drawing, "'random' returns a different value"),
        (drawing_with_numpy, "samples random numbers in Python"),
        (returning_a_number, "returns something that is not a tensor"),
    ],
)
def test_python_beside_the_ops_is_refused(function, words, capsys):
    heard = []
    step = taken_over(function, told(heard))
    try:
        assert words in step.refusal
        assert heard == [step.refusal]
        function(X, Y)  # goes on as written
    finally:
        step.restore()


def test_what_cannot_be_traced_goes_on_op_by_op():
    def step(x, y):
        return tf.constant((x + y).numpy())

    heard = []
    took = taken_over(step, told(heard))
    assert took.refusal == ""  # nothing of it shows before
    found = step(X, Y)
    np.testing.assert_array_equal(found, X + Y)
    assert ["tracing the step fails" in why for why in heard] == [True]


@pytest.fixture
def failing_once(monkeypatch):
    """Let an op raise something when it is called next."""
    square, errors = tf.square, []

    def called(x):
        if errors:
            raise errors.pop()
        return square(x)

    monkeypatch.setattr(tf, "square", called)
    return errors.append


def test_an_error_that_passes_while_it_is_traced_is_not_the_user_s(failing_once):
    """Memory that is full for a moment: nothing of the step was done, so it is done op by op."""

    def step(x, y):
        return tf.square(x) + y

    took = taken_over(step)
    failing_once(tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"))
    np.testing.assert_array_equal(step(X, Y), X * X + Y)
    assert "OOM" in took.refusal


def test_a_call_that_fails_while_it_is_watched_was_not_watched(failing_once, capsys):
    def step(x, y):
        found = tf.square(x) + y
        if x.shape[0] == 5:
            print("five")
        return found

    took = taken_over(step)
    step(X, Y)
    failing_once(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        step(X[:5], Y[:5])
    for _ in range(3):
        step(X[:5], Y[:5])
    assert capsys.readouterr().out == 3 * "five\n"
    assert "print" in took.refusal


def test_an_error_of_the_step_is_its_own():
    def step(x, y):
        tf.debugging.assert_positive(tf.reduce_sum(x * x) - 1_000 * tf.reduce_sum(y - Y))
        return x + y

    took = taken_over(step)
    step(X, Y)
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(X, Y + 100)
    assert took.refusal == ""


def test_another_value_of_pythons_at_each_call_is_given_up():
    def step(x, number):
        return x * number

    heard = []
    took = EagerStep(step, told(heard))
    step(X, 0)
    took.mode = StepMode.GRAPH
    for number in range(40):
        np.testing.assert_array_equal(step(X, number), X * number)
    assert heard == ["the script calls the step with too many different shapes or Python values"]


def test_something_that_changes_before_each_call_is_given_up(monkeypatch):
    def step(x, y):
        return (x + y) * RATE

    heard = []
    took = taken_over(step, told(heard))
    for number in range(100):
        monkeypatch.setitem(globals(), "RATE", float(number))
        np.testing.assert_array_equal(step(X, Y), (X + Y) * float(number))
    assert heard == ["'RATE' changes too often"]
    assert took.refusal


def test_inside_a_graph_of_the_users_it_is_what_it_was():
    def inner(x, y):
        return x + y

    took = EagerStep(inner)
    outer = tf.function(lambda: inner(X, Y))
    np.testing.assert_array_equal(outer(), X + Y)
    assert took.refusal is None


def test_all_that_a_step_changes_is_given_back(training, given_back):
    step = EagerStep(Training.step)
    step.is_recording = True
    for _ in range(3):
        training.step(X, Y)
    args, kwargs = step.recorded_calls[0]
    state = GraphState(step.graph_function().get_concrete_function(*args, **kwargs))
    held = [
        *training.model.variables,
        *training.optimizer.variables,
        *training.mean.variables,
    ]
    before = [v.numpy() for v in held]
    for mode in (StepMode.ORIGINAL, StepMode.GRAPH, StepMode.ANY_SHAPE, StepMode.XLA):
        step.mode = mode
        training.step(X, Y)
        assert any((v.numpy() != b).any() for v, b in zip(held, before, strict=True))
        state.restore()
        assert all((v.numpy() == b).all() for v, b in zip(held, before, strict=True))


def test_calls_are_recorded_as_they_were_made():
    def step(x, y):
        return tf.constant(x) + y

    took = EagerStep(step)
    took.is_recording = True
    buffer = np.zeros(3)
    step(buffer, 1.0)  # is watched
    for number in range(100):
        buffer[:] = number
        step(buffer, 1.0)
    assert [args[0][0] for args, _ in took.recorded_calls] == list(range(64))


class Agent:
    """All that it does beside computing hangs on its ``self``."""

    def __init__(self):
        self.scale, self.steps, self.losses = 1.0, 0, []

    def counting(self, x, y):
        self.steps += 1
        return x + y

    def collecting(self, x, y):
        loss = tf.reduce_sum(x + y)
        self.losses.append(loss)
        return loss

    def remembering(self, x, y):
        self.last = x + y
        return self.last

    def scaled(self, x, y):
        return self.scale * (x + y)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("counting", "it changes 'steps' in each step"),
        ("collecting", "it changes 'losses' in each step"),
        ("remembering", "it changes 'last' in each step"),
    ],
)
def test_what_hangs_on_self_is_watched(name, words):
    agent, function = Agent(), getattr(Agent, name)
    step = EagerStep(function)
    try:
        getattr(agent, name)(X, Y)
        getattr(agent, name)(X, Y)
        assert step.refusal == words
    finally:
        step.restore()


def test_what_hangs_on_self_is_guarded():
    agent, other = Agent(), Agent()
    other.scale = 5.0
    step = EagerStep(Agent.scaled)
    try:
        agent.scaled(X, Y)
        step.mode = StepMode.GRAPH
        np.testing.assert_allclose(agent.scaled(X, Y), X + Y)
        agent.scale = 3.0
        for _ in range(3):
            np.testing.assert_allclose(agent.scaled(X, Y), 3.0 * (X + Y), rtol=1e-6)
            np.testing.assert_allclose(other.scaled(X, Y), 5.0 * (X + Y), rtol=1e-6)
        assert step.refusal == ""
    finally:
        step.restore()


def test_a_model_that_is_handed_over_is_guarded(training):
    def step(model, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((y - model(x, training=True)) ** 2)
        return tape.gradient(loss, model.trainable_variables)

    took = EagerStep(step)
    step(training.model, X, Y)
    took.mode = StepMode.GRAPH
    assert len(step(training.model, X, Y)) == 6
    training.model.layers[0].trainable = False
    assert len(step(training.model, X, Y)) == 4
    assert took.refusal == ""


def test_branches_on_tensors_are_left_alone(capsys):
    def step(x, y):
        if tf.reduce_any(tf.math.is_nan(x)):
            print("NaN, skipped")
        return x + y

    heard = []
    took = taken_over(step, told(heard))
    step(X, Y)
    assert "tracing the step fails" in heard[0]
    assert took.refusal
    assert capsys.readouterr().out == ""


def test_a_flag_that_makes_it_print_is_seen(capsys):
    def step(x, y, log=False):
        if log:
            print("logged")
        return x + y

    heard = []
    took = EagerStep(step, told(heard))
    step(X, Y)
    took.mode = StepMode.GRAPH
    for number in range(12):
        step(X, Y, log=number % 3 == 2)
    assert heard == ["it does more than compute: print"]
    assert capsys.readouterr().out == "logged\n" * 4


def test_a_summary_of_each_step_keeps_its_number(tmp_path):
    def step(x, y):
        tf.summary.write("sum", tf.reduce_sum(x + y))
        return x + y

    heard = []
    took = EagerStep(step, told(heard))
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        for number in range(40):
            tf.summary.experimental.set_step(number)
            took.mode = StepMode.GRAPH
            step(X, Y)
    tf.summary.experimental.set_step(None)
    assert heard == ["the script calls the step with too many different shapes or Python values"]


@pytest.mark.parametrize(
    "returned",
    [lambda x: tf.Variable(1.0), lambda x: {0: x, "loss": x}, lambda x: [x, 1.0], np.asarray],
)
def test_what_is_no_plain_tensor_is_left_alone(returned):
    def step(x, y):
        return returned(x)

    assert taken_over(step).refusal == "the step returns something that is not a tensor"


def test_a_step_that_calls_itself_is_watched_once():
    def step(x, y):
        return step(x[:4], y[:4]) + step(x[4:], y[4:]) if x.shape[0] == 8 else x + y

    took = taken_over(step)
    np.testing.assert_allclose(step(X, Y), (X + Y)[:4] + (X + Y)[4:], rtol=1e-5)
    assert took.refusal == ""


def test_an_object_that_minds_being_looked_at_is_refused():
    class Config:
        def __init__(self, held):
            self._held = held

        def __getattr__(self, name):
            return self._held[name]

    config = Config({"beta": 0.5})

    def step(x, y):
        return x * config.beta + y

    took = taken_over(step)
    np.testing.assert_allclose(step(X, Y), X * 0.5 + Y, rtol=1e-6)
    config._held["beta"] = 2.0
    np.testing.assert_allclose(step(X, Y), X * 2.0 + Y, rtol=1e-6)
    assert took.refusal is not None


def test_a_number_that_changes_is_one_form():
    training = Training()
    rates = [n / 40 for n in range(40)]

    def step(x, y, rate, axis=0):
        with tf.GradientTape() as tape:
            loss = rate * tf.reduce_mean((y - training.model(x)) ** 2, axis=axis)
        gradients = tape.gradient(loss, training.model.trainable_variables)
        for variable, gradient in zip(training.model.trainable_variables, gradients, strict=True):
            variable.assign_sub(0.01 * gradient)
        return loss

    expected = [step(X, Y, rate).numpy() for rate in rates]
    training = Training()
    took = EagerStep(step)
    try:
        took.is_examined = True
        took.mode = StepMode.GRAPH
        found = [step(X, Y, rate).numpy() for rate in rates]
        assert took.refusal == ""
        assert took.number_arguments == ("rate",)
        assert took.graph_function().experimental_get_tracing_count() <= 2
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    finally:
        took.restore()


def test_a_step_that_needs_the_number_itself_goes_on_op_by_op():
    heard = []

    def step(x, number):
        return tf.reduce_sum(x) * (2 if number % 3 else 3)

    expected = [float(step(X, n)) for n in range(8)]
    took = EagerStep(step, told(heard))
    try:
        took.number_arguments, took.mode = ("number",), StepMode.GRAPH
        assert [float(step(X, n)) for n in range(8)] == expected
        assert "tracing the step fails" in took.refusal
        assert len(heard) == 1
    finally:
        took.restore()


WEIGHT = tf.Variable(1.0)


def checked(x, y):
    """Minds a bad batch before it moves anything."""
    loss = tf.reduce_mean(x - y)
    tf.debugging.check_numerics(loss, "a bad batch")
    WEIGHT.assign_add(loss)
    return loss


def test_a_check_that_somebody_waits_for_stops_the_update():
    took = taken_over(checked)
    try:  # noqa: SIM105 - as scripts do
        checked(X, Y)
    except tf.errors.InvalidArgumentError:
        pass
    assert "CheckNumerics would not stop the update" in took.refusal
    before = float(WEIGHT)
    with pytest.raises(tf.errors.InvalidArgumentError):
        checked(X * np.nan, Y)
    assert float(WEIGHT) == before


def test_a_check_that_ends_the_training_is_no_reason():
    try:  # noqa: SIM105 - as scripts do
        import a_package_that_is_not_there  # noqa: F401, PLC0415
    except ImportError:
        pass

    def check(x, y):
        tf.debugging.check_numerics(x, "a bad batch")
        return tf.reduce_mean(x - y)

    took = taken_over(check)
    try:
        check(X, Y)
    except KeyboardInterrupt:
        raise
    assert took.refusal == ""
    assert took.graph_function().experimental_get_tracing_count() == 1


def test_a_rate_for_each_epoch_goes_on_as_a_graph():
    """Each of them is another form of the call, and serves for long."""

    def step(x, rate):
        return tf.reduce_sum(x) * rate

    took = taken_over_with(step, 0.5)
    for epoch in range(20):
        rate = 0.5 * 0.9**epoch
        for _ in range(60):
            found = step(X, rate)
        assert float(found) == pytest.approx(rate * float(tf.reduce_sum(X)), rel=1e-5)
    assert took.refusal == ""


def taken_over_with(function, rate):
    """The number is one only, as far as was seen."""
    step = EagerStep(function)
    function(X, rate)
    function(X, rate)
    step.mode = StepMode.GRAPH
    return step


class Teacher(keras.Model):
    def call(self, x):
        return x * 2.0


class Student(keras.Model):
    def call(self, x):
        return x + 1.0


def test_models_of_several_classes_are_one_step_too_many():
    """A plan knows the code of all that is called, and the first call is of one of them."""

    def step(model, x):
        return tf.reduce_sum(model(x))

    took = EagerStep(step)
    took.is_examined = True
    for model in (Teacher(), Student()):
        for _ in range(3):
            step(model, X)
        took.mode = StepMode.GRAPH
    assert "several classes" in took.refusal


def test_callbacks_are_for_python():
    class Counting(keras.callbacks.Callback):
        count = 0

        def on_train_batch_end(self, batch, logs=None):
            self.count += 1

    counting = Counting()
    callbacks = keras.callbacks.CallbackList([counting])

    def step(x, y):
        callbacks.on_train_batch_end(0, {})
        return tf.reduce_mean(x - y)

    took = taken_over(step)
    for _ in range(3):
        step(X, Y)
    assert "callback" in took.refusal
    assert counting.count == 5


@pytest.mark.parametrize("told", [lambda on: on, tf.constant, lambda on: lambda: on])
def test_summaries_are_written_when_they_are_asked_for(tmp_path, told):
    """A graph keeps the answer that it was traced with."""

    def step(x, y):
        tf.summary.write("sum", tf.reduce_sum(x + y), step=tf.constant(NOTES.count, tf.int64))
        return x

    def written(folder, run):
        with tf.summary.create_file_writer(str(folder)).as_default():
            for number in range(12):
                with tf.summary.record_if(told(number % 4 == 3)):
                    run(X, Y)
        return len(list(tf.data.TFRecordDataset(sorted(map(str, folder.glob("*"))))))

    plain = written(tmp_path / "plain", step)
    taken = EagerStep(step)
    taken.mode = StepMode.GRAPH
    assert written(tmp_path / "graph", step) == plain == 1 + 3
    assert taken.refusal == ""
    taken.restore()
