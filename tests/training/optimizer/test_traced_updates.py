"""Steps of a loop whose weights are updated by one kernel each, only while they are traced."""

from __future__ import annotations

import copy
import gc
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer

from uncork.training.loop_step.compiled_step import CompiledStep
from uncork.training.loop_step.eager_step import EagerStep
from uncork.training.loop_step.mode import StepMode
from uncork.training.loop_step.number_arguments import TensorArgumentFunction
from uncork.training.optimizer.traced_updates import TracedUpdates, count_fusable_weights_in

X = tf.random.stateless_normal((8, 6), (1, 2))
Y = tf.random.stateless_normal((8, 1), (3, 4))
FUSED = StepMode(has_fused_updates=True)
AS_EVER = vars(TFOptimizer)["_distributed_tf_update_step"]


@pytest.fixture(autouse=True)
def keras_s_own_afterwards():
    yield
    assert vars(TFOptimizer)["_distributed_tf_update_step"] is AS_EVER


class Training:
    def __init__(self, optimizer="adam", *, eager=False):
        keras.utils.set_random_seed(1)
        layers = [keras.Input((6,)), keras.layers.Dense(5, "relu"), keras.layers.Dense(1)]
        self.model = keras.Sequential(layers)
        self.optimizer = keras.optimizers.get(optimizer)
        self.optimizer.build(self.model.trainable_variables)
        self.step = self.eager if eager else tf.function(self.eager)

    def eager(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((y - self.model(x, training=True)) ** 2)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return loss

    @property
    def values(self):
        return [v.numpy() for v in (*self.model.variables, *self.optimizer.variables)]


def ops_of(function):
    return {op.type for op in function.get_concrete_function(X, Y).graph.get_operations()}


def taken(training):
    return CompiledStep(training.step)


def nearly_the_same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("optimizer", "kernel"),
    [
        (keras.optimizers.Adam(0.01, clipnorm=1.0), "ResourceApplyAdam"),
        (keras.optimizers.AdamW(0.01), "ResourceApplyAdam"),
        (keras.optimizers.SGD(0.01, momentum=0.9), "ResourceApplyKerasMomentum"),
        (keras.optimizers.Adadelta(0.1), "ResourceApplyAdadelta"),
        (
            keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
            "ResourceApplyAdam",
        ),
    ],
)
def test_a_loop_s_step_is_traced_so_and_the_optimizer_stays_its_own(optimizer, kernel):
    config = keras.optimizers.serialize(optimizer)
    ours, twin = (Training(keras.optimizers.deserialize(copy.deepcopy(config))) for _ in range(2))
    step = taken(ours)
    step.mode = FUSED
    for _ in range(6):
        ours.step(X, Y)
        twin.step(X, Y)
    assert step.mode_refusal == ""
    nearly_the_same(ours.values, twin.values)
    assert kernel in all_ops_of(step.graph_function(FUSED))
    assert kernel not in all_ops_of(step.graph_function())
    step.restore()
    ours.step(X, Y)  # goes on as written, from the same state
    twin.step(X, Y)
    nearly_the_same(ours.values, twin.values)


def all_ops_of(function):
    """Those of branches as well, in which a scaled loss is applied."""
    graph = function.get_concrete_function(X, Y).graph.as_graph_def()
    inner = {node.op for f in graph.library.function for node in f.node_def}
    return ops_of(function) | inner


def test_momentum_is_the_same_to_the_bit():
    ours, twin = (Training(keras.optimizers.SGD(0.1, momentum=0.9)) for _ in range(2))
    step = taken(ours)
    step.mode = FUSED
    for _ in range(8):
        assert float(ours.step(X, Y)) == float(twin.step(X, Y))
    for one, other in zip(ours.values, twin.values, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("make", [keras.optimizers.Nadam, keras.optimizers.SGD])
def test_without_a_kernel_the_step_stays_as_it_is(make):
    ours = Training(make())
    step = taken(ours)
    step.mode = FUSED
    ours.step(X, Y)
    ours.step(X, Y)
    assert "TensorFlow has no kernel" in step.mode_refusal
    assert ours.optimizer.iterations.numpy() == 2


def test_an_eager_step_too_once_it_is_a_graph():
    ours, twin = Training(eager=True), Training(eager=True)
    code = Training.eager.__code__
    Training.eager.__code__ = code.replace()
    step = EagerStep(Training.eager)
    step.mode = StepMode(is_graph=True, has_fused_updates=True)
    try:
        for _ in range(5):
            ours.step(X, Y)
        assert step.mode_refusal == ""
        assert "ResourceApplyAdam" in {
            op.type
            for each in step._graphs.values()
            for traced in each._function_cache.values()
            for op in traced.graph.get_operations()
        }
    finally:
        step.restore()
        Training.eager.__code__ = code
    for _ in range(5):
        twin.step(X, Y)
    nearly_the_same(ours.values, twin.values)


def test_two_optimizers_of_one_step():
    one, other = Training(), Training("nadam")
    both = tf.function(lambda x, y: one.eager(x, y) + other.eager(x, y))
    step = CompiledStep(both)
    step.mode = FUSED
    for _ in range(3):
        both(X, Y)
    assert step.mode_refusal == ""
    assert "ResourceApplyAdam" in ops_of(step.graph_function(FUSED))
    assert other.optimizer.iterations.numpy() == 3


def test_another_thread_s_trace_is_the_user_s_own_affair():
    ours, other, seen = Training(), Training(), []

    def elsewhere():
        seen.append(ops_of(other.step))

    def traced(x, y):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return ours.eager(x, y)

    updates = TracedUpdates()
    function = tf.function(updates.wrap_function(traced), autograph=False)
    assert "ResourceApplyAdam" in ops_of(function)
    assert "ResourceApplyAdam" not in seen[0]
    assert updates.fused_count == 4


def test_an_error_in_the_trace_gives_the_optimizer_back():
    def broken(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tf.function(TracedUpdates().wrap_function(broken), autograph=False)(X)


def test_weights_that_one_kernel_each_could_update_are_counted():
    ours, other = Training(), Training("nadam")
    for training in (ours, other):
        training.step(X, Y)
    assert (count_fusable_weights_in(ours.step), count_fusable_weights_in(other.step)) == (4, 0)
    assert count_fusable_weights_in(tf.function(lambda x: x)) == 0


def test_a_step_that_updates_in_some_of_its_traces_only():
    ours, twin = Training(), Training()

    def gathered(training):
        def step(x, y, apply):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((y - training.model(x, training=True)) ** 2)
            gradients = tape.gradient(loss, training.model.trainable_variables)
            if apply:
                training.optimizer.apply(gradients, training.model.trainable_variables)
            return loss

        return tf.function(step, autograph=False)

    function, other = gathered(ours), gathered(twin)
    step = CompiledStep(function)
    step.mode = FUSED
    for apply in (False, False, True, False, True):
        function(X, Y, apply)
        other(X, Y, apply)
    assert step.mode_refusal == ""
    nearly_the_same(ours.values, twin.values)
    last = step.graph_function(FUSED).get_concrete_function(X, Y, True).graph.get_operations()
    assert "ResourceApplyAdam" in {op.type for op in last}


def test_a_step_that_calls_a_function_that_trains_is_left_as_it_is():
    ours = Training()
    outer = tf.function(lambda x, y: 2.0 * ours.step(x, y))
    step = CompiledStep(outer)
    step.mode = FUSED
    for _ in range(3):
        outer(X, Y)
    assert "another tf.function" in step.mode_refusal
    assert "ResourceApplyAdam" not in all_ops_of(ours.step)


def test_two_threads_trace_so_at_once_and_who_began_first_ends_first():
    begun, first_left, found = threading.Barrier(2), threading.Event(), {}

    def traced(name):
        training, updates = Training(), TracedUpdates()

        def step(x, y):
            begun.wait(20)
            if name == "second":
                assert first_left.wait(20)
            return training.eager(x, y)

        ops = ops_of(tf.function(updates.wrap_function(step), autograph=False))
        found[name] = "ResourceApplyAdam" in ops, updates.fused_count
        first_left.set()

    threads = [threading.Thread(target=traced, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"first": (True, 4), "second": (True, 4)}


def test_weights_of_models_that_are_gone_are_not_counted():
    gone, ours = Training(), Training()
    step = tf.function(lambda which, x, y: (gone if which else ours).eager(x, y), autograph=False)
    step(True, X, Y)
    step(False, X, Y)
    assert count_fusable_weights_in(step) == 8
    del gone.model, gone.optimizer, gone.step
    gc.collect()
    assert count_fusable_weights_in(step) == 4


def test_numbers_that_are_handed_over_as_tensors_hide_nothing():
    ours = Training()

    @tf.function
    def scaled(x, y, by):
        return ours.eager(x * by, y)

    function = TensorArgumentFunction(scaled, ("by",))
    function(X, Y, 0.5)
    assert count_fusable_weights_in(function) == 4
