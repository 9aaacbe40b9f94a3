"""Steps whose ``tf.map_fn`` is answered at once, and only while they are traced."""

from __future__ import annotations

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import JitCompile, StepsPerExecution, VectorizedMapFn
from uncork.training.loop_step.compiled_step import CompiledStep
from uncork.training.loop_step.eager_step import EagerStep
from uncork.training.loop_step.mode import StepMode
from uncork.training.run.planned_step import PlannedStep
from uncork.training.run.step_settings import StepSettings
from uncork.training.tracing.map_fn import MapVectorizer

X = tf.random.stateless_normal((8, 4, 3), (1, 2))
Y = tf.random.stateless_normal((8, 1), (3, 4))
AT_ONCE = StepMode(has_vectorized_maps=True)
MAP_FN = tf.map_fn


@pytest.fixture(autouse=True)
def tensorflow_s_own_afterwards():
    yield
    assert tf.map_fn is MAP_FN


class Pooling(keras.layers.Layer):
    """One example at a time."""

    def __init__(self, noise=0.0):
        super().__init__()
        self.noise = noise

    def build(self, shape):
        self.query = self.add_weight(shape=(shape[-1],), name="query")

    def pool(self, states):
        weights = tf.nn.softmax(tf.linalg.matvec(states, self.query))
        if self.noise:
            weights += tf.random.normal((), stddev=self.noise)
        return tf.linalg.matvec(states, weights, transpose_a=True)

    def call(self, states):
        return tf.map_fn(self.pool, states)


def model(noise=0.0, **compiled):
    keras.utils.set_random_seed(1)
    layers = [keras.Input((4, 3)), Pooling(noise), keras.layers.Dense(1)]
    made = keras.Sequential(layers)
    made.compile("adam", "mse", **compiled)
    made.optimizer.build(made.trainable_variables)
    return made


class Training:
    def __init__(self, noise=0.0):
        self.model = model(noise)
        self.optimizer = keras.optimizers.Adam(0.01)

    def eager(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((y - self.model(x, training=True)) ** 2)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(self, x, y):
        if tf.reduce_sum(y) > 1e9:  # a branch, which TensorFlow must convert
            x = -x
        return self.eager(x, y)


def has_loop(concrete):
    proto = concrete.graph.as_graph_def()
    bodies = [proto.node, *(inner.node_def for inner in proto.library.function)]
    return any("While" in node.op for body in bodies for node in body)


def test_a_step_of_a_loop_trains_the_same_without_the_loop():
    switched, plain = Training(), Training()
    step = CompiledStep(switched.step)
    step.mode = AT_ONCE
    ours, theirs = ([float(each.step(X, Y)) for _ in range(6)] for each in (switched, plain))
    assert step.mode_refusal == ""
    assert not has_loop(step.graph_function(AT_ONCE).get_concrete_function(X, Y))
    assert has_loop(step.graph_function().get_concrete_function(X, Y))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    weights = zip(switched.model.variables, plain.model.variables, strict=True)
    for one, other in weights:
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.deep
@pytest.mark.every(2)
@pytest.mark.parametrize(
    "mode",
    [
        StepMode(has_vectorized_maps=True, is_xla=True),
        StepMode(has_vectorized_maps=True, policy="mixed_bfloat16"),
    ],
)
def test_together_with_other_ways_to_run_it(mode):
    training = Training()
    step = CompiledStep(training.step)
    first = float(training.step(X, Y))
    step.mode = mode
    losses = [float(training.step(X, Y)) for _ in range(6)]
    assert step.mode_refusal == ""
    assert losses[-1] < first
    concrete = step.graph_function(mode).get_concrete_function(X, Y)
    assert not has_loop(concrete)
    if mode.policy:
        dtypes = {op.outputs[0].dtype for op in concrete.graph.get_operations() if op.outputs}
        assert tf.bfloat16 in dtypes


def test_layers_that_the_first_call_builds_are_built_by_the_step_as_written():
    class Lazily(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, x):
            return tf.map_fn(self.dense, x)

    trained = []
    for mode in (StepMode.ORIGINAL, AT_ONCE):
        keras.utils.set_random_seed(3)
        layer = Lazily()

        @tf.function
        def step(x, layer=layer):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(layer(x) ** 2)
            gradients = tape.gradient(loss, layer.trainable_variables)
            for variable, gradient in zip(layer.trainable_variables, gradients, strict=True):
                variable.assign_sub(0.1 * gradient)
            return loss

        taken = CompiledStep(step)
        taken.mode = mode
        trained.append([float(step(X)) for _ in range(4)])
        assert taken.mode_refusal == ""
    np.testing.assert_allclose(*trained, rtol=1e-5)
    assert not has_loop(taken.graph_function(AT_ONCE).get_concrete_function(X))


def test_an_eager_step_as_a_graph():
    training = Training()
    step = EagerStep(Training.eager)
    try:
        losses = [float(training.eager(X, Y)) for _ in range(2)]
        step.mode = StepMode(is_graph=True, has_vectorized_maps=True)
        losses += [float(training.eager(X, Y)) for _ in range(4)]
        assert (step.refusal, step.mode_refusal) == ("", "")
        assert losses[-1] < losses[0]
        assert not has_loop(step.graph_function(step.mode).get_concrete_function(training, X, Y))
    finally:
        step.restore()


def test_a_map_that_stays_is_told_with_its_line():
    heard = []
    training = Training(noise=0.1)
    step = CompiledStep(training.step, lambda how, why: heard.append((how, why)))
    step.mode = AT_ONCE
    for _ in range(3):
        training.step(X, Y)
    ((how, why),) = heard
    assert how == "unmodified"
    assert why == step.mode_refusal
    assert "test_map_fn.py:" in why
    assert "uses random numbers" in why


def test_a_step_without_a_map_goes_on_as_written():
    step = CompiledStep(tf.function(lambda x: 2 * x))
    step.mode = AT_ONCE
    assert [float(step.run(tf.constant(2.0))) for _ in range(3)] == [4.0] * 3
    assert "calls no tf.map_fn" in step.mode_refusal


def test_of_two_maps_one_may_stay():
    @tf.function
    def step(x):
        drawn = tf.map_fn(lambda row: row + 0 * tf.random.normal(()), x)
        return tf.map_fn(tf.norm, x, fn_output_signature=tf.float32) + tf.reduce_sum(drawn)

    expected = step(X)
    taken = CompiledStep(step)
    taken.mode = AT_ONCE
    for _ in range(3):
        np.testing.assert_allclose(step(X), expected, rtol=1e-5)
    assert taken.mode_refusal == ""


def test_keras_s_own_map_is_one():
    maps = MapVectorizer()
    step = tf.function(maps.wrap_function(lambda x: keras.ops.map(lambda row: 2 * row, x)))
    np.testing.assert_array_equal(step(X), 2 * X)
    assert maps.vectorized_count == 1


def test_functions_of_datasets_and_code_that_runs_op_by_op_are_not_touched():
    maps, seen = MapVectorizer(), []

    def step(x):
        data = tf.data.Dataset.from_tensors(x).map(lambda each: tf.map_fn(tf.norm, each))
        seen.append(tf.map_fn)
        with tf.init_scope():
            seen.append(float(tf.map_fn(tf.norm, X)[0]))
        other = threading.Thread(target=lambda: seen.append(float(tf.map_fn(tf.norm, X)[0])))
        other.start()
        other.join()
        return data.reduce(0.0, lambda total, norms: total + tf.reduce_sum(norms))

    found = tf.function(maps.wrap_function(step), autograph=False)(X)
    assert float(found) == pytest.approx(float(tf.reduce_sum(tf.map_fn(tf.norm, X))), rel=1e-6)
    assert maps.vectorized_count == 0
    assert seen[0] is not MAP_FN
    assert seen[1:] == [float(MAP_FN(tf.norm, X)[0])] * 2


def test_an_error_while_it_is_traced_leaves_tensorflow_s_own():
    maps = MapVectorizer()

    def step(x):
        tf.map_fn(tf.norm, x)
        raise KeyError("no such thing")

    with pytest.raises(KeyError):
        tf.function(maps.wrap_function(step))(X)
    assert tf.map_fn is MAP_FN


def test_an_error_of_the_user_s_own_function_is_told_as_ever():
    def step(x):
        return tf.map_fn(lambda row: row.no_such_thing, x)

    for each in (step, MapVectorizer().wrap_function(step)):
        with pytest.raises(AttributeError, match="no_such_thing"):
            tf.function(each)(X)
    with pytest.raises(TypeError, match="no_such_option"):
        tf.function(
            MapVectorizer().wrap_function(lambda x: tf.map_fn(tf.norm, x, no_such_option=1))
        )(X)


def test_two_threads_may_trace_at_once():
    inside, done = threading.Barrier(2), []

    def trace():
        with MapVectorizer().active():
            inside.wait(30)
        done.append(True)

    threads = [threading.Thread(target=trace) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True, True]
    assert tf.map_fn is MAP_FN


EDITS = [
    (VectorizedMapFn(),),
    (VectorizedMapFn(), JitCompile()),
    (StepsPerExecution(steps=2), VectorizedMapFn()),
]


def fitted(made, settings=None):
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(3)  # the last one is shorter
    if settings is None:
        return made.fit(data, epochs=4, verbose=0).history["loss"]
    with settings:
        return made.fit(data, epochs=4, verbose=0).history["loss"]


@pytest.mark.every(4)
@pytest.mark.parametrize("edits", EDITS)
def test_fit_trains_the_same_without_the_loop(edits):
    switched, plain = model(), model()
    settings = StepSettings(switched, edits)
    np.testing.assert_allclose(fitted(switched, settings.active()), fitted(plain), rtol=1e-4)
    for ours, theirs in zip(switched.variables, plain.variables, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)
    assert not {"train_step", "make_train_function"} & set(vars(switched))
    assert settings._transforms.map_vectorizer.vectorized_count


@pytest.mark.deep
@pytest.mark.every(4)
@pytest.mark.parametrize("edits", EDITS)
def test_under_a_plan_too_and_back_again(edits):
    switched, plain = model(), model()
    told = []
    planned = PlannedStep(switched, edits, told.append)
    np.testing.assert_allclose(fitted(switched, planned.active()), fitted(plain), rtol=1e-4)
    function = planned._functions["train_function"]
    assert switched.train_function is not function
    assert not {"train_step", "make_train_function"} & set(vars(switched))
    fitted(switched, planned.active())
    assert planned._functions["train_function"] is function
    assert told == []
    fitted(switched)
    replaced = planned._transforms.map_vectorizer.vectorized_count
    assert fitted(switched)
    assert planned._transforms.map_vectorizer.vectorized_count == replaced, (
        "the user's own step is traced as written"
    )


def test_where_every_map_stays_a_trial_is_refused():
    made = model(noise=0.1)
    settings = StepSettings(made, (VectorizedMapFn(),))
    for _ in range(2):
        with pytest.raises(EditRefused, match="uses random numbers"):
            fitted(made, settings.active())
    assert not {"train_step", "make_train_function"} & set(vars(made))
    assert fitted(made)


def test_where_every_map_stays_a_plan_says_so_and_goes_on():
    made, told = model(noise=0.1), []
    planned = PlannedStep(made, (VectorizedMapFn(),), told.append)
    assert fitted(made, planned.active())
    assert fitted(made, planned.active())
    assert len(told) == 1
    assert "stays a loop" in told[0]


@pytest.mark.deep
def test_a_train_step_of_the_user_s_own():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.pooling, self.head = Pooling(), keras.layers.Dense(1)

        def call(self, x):
            return self.head(self.pooling(x))

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                losses = tf.map_fn(
                    lambda pair: tf.norm(pair[0] - pair[1]), (self(x), y), tf.float32
                )
                loss = tf.reduce_mean(losses)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            return {"loss": loss}

    histories = []
    for edits in ((), (VectorizedMapFn(),)):
        keras.utils.set_random_seed(2)
        made = Own()
        made(X)
        made.compile("adam")
        settings = StepSettings(made, edits)
        histories.append(fitted(made, settings.active()))
    assert settings._transforms.map_vectorizer.vectorized_count
    np.testing.assert_allclose(*histories, rtol=1e-4)
