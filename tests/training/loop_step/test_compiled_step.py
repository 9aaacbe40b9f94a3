"""Compiled steps of real models, under XLA and given back."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.training.loop_step.compiled_step import CompiledStep, function_code_digest
from uncork.training.loop_step.mode import StepMode
from uncork.training.tracing.dropped_checks import dropped_checks_refusal

X, Y = tf.random.stateless_normal((8, 3), (1, 2)), tf.random.stateless_normal((8, 1), (3, 4))


class Training:
    def __init__(self):
        keras.utils.set_random_seed(1)
        self.model = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)]
        )
        self.optimizer = keras.optimizers.Adam(0.01)
        self.traced = 0

    @tf.function
    def step(self, x, y):
        self.traced += 1
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((y - self.model(x, training=True)) ** 2)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return {"loss": loss}


def trained(training, steps=6):
    losses = [float(training.step(X, Y)["loss"]) for _ in range(steps)]
    return losses, [v.numpy() for v in training.model.variables]


@pytest.mark.deep
def test_a_method_under_xla_and_back():
    expected = trained(Training(), 12)
    training = Training()
    first, _ = trained(training, 4)
    step = CompiledStep(training.step)
    before = training.traced
    step.mode = StepMode.XLA
    second, _ = trained(training, 4)
    assert training.traced > before, "XLA traces the function anew"
    assert step.mode_refusal == ""
    assert not step.is_xla
    step.mode = StepMode.ORIGINAL
    step.restore()
    before = training.traced
    third, weights = trained(training, 4)
    assert training.traced == before, "what was traced before is still known"
    np.testing.assert_allclose([*first, *second, *third], expected[0], rtol=1e-5)
    for ours, theirs in zip(weights, expected[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_as_written_it_is_what_it_was():
    expected = trained(Training())
    training = Training()
    CompiledStep(training.step)
    found = trained(training)
    assert found[0] == expected[0]
    for ours, theirs in zip(found[1], expected[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_one_trace_for_all_shapes():
    expected = [float(shaped(tf.ones(n))) for n in (2, 3, 4, 5)]
    traced = tf.function(shaped)
    step = CompiledStep(traced)
    step.mode = StepMode.ANY_SHAPE
    assert [float(traced(tf.ones(n))) for n in (2, 3, 4, 5)] == expected
    other = step.graph_function(StepMode.ANY_SHAPE)
    assert other is not traced
    assert other.experimental_get_tracing_count() == 2
    assert traced.experimental_get_tracing_count() == 0


def test_python_that_needs_to_know_the_shape_goes_on_as_written():
    heard = []
    traced = tf.function(lambda x: tf.ones(x.shape) + float(x.shape[0]), autograph=False)
    step = CompiledStep(traced, lambda how, why: heard.append(how))
    step.mode = StepMode.ANY_SHAPE
    assert [float(traced(tf.ones(n))[0]) for n in (2, 3, 4)] == [3, 4, 5]
    assert heard == ["unmodified"]


def shaped(x):
    return tf.reduce_sum(x) * 2


def test_what_xla_cannot_compile_goes_on_as_written():
    heard = []
    seen = tf.Variable(0)

    @tf.function
    def count(words):
        seen.assign_add(1)
        return tf.strings.length(tf.strings.upper(words))

    step = CompiledStep(count, lambda how, why: heard.append((how, why)))
    step.mode = StepMode.XLA
    words = tf.constant(["a", "bcd"])
    assert [int(n) for n in count(words)] == [1, 3]
    assert [int(n) for n in count(words)] == [1, 3]
    assert int(seen) == 2, "a call that failed left nothing behind"
    ((how, why),) = heard
    assert how == "unmodified"
    assert step.mode_refusal == why


def test_what_xla_would_not_check_is_checked():
    @tf.function
    def fail(x):
        tf.debugging.assert_positive(x, message="not positive")
        return x

    step = CompiledStep(fail)
    step.mode = StepMode.XLA
    assert float(fail(tf.constant(1.0))) == 1
    assert step.mode_refusal == "XLA drops the checks of the step: Assert"
    with pytest.raises(tf.errors.InvalidArgumentError, match="not positive"):
        fail(tf.constant(-1.0))


def test_a_function_under_xla_without_it_and_back():
    @tf.function(jit_compile=True)
    def double(x):
        return 2 * x

    step = CompiledStep(double)
    step.mode = StepMode(is_xla_off=True)
    assert float(double(tf.constant(3.0))) == 6
    assert step.mode_refusal == ""
    assert step.is_xla
    assert not step.graph_function(step.mode)._jit_compile
    step.restore()
    assert double._jit_compile


def test_what_xla_has_left_out_is_not_checked_all_at_once():
    """It would end a training that has trained on so far."""

    @tf.function(jit_compile=True)
    def fail(x):
        tf.debugging.assert_positive(x, message="not positive")
        return x

    step = CompiledStep(fail)
    step.mode = StepMode(is_xla_off=True)
    assert float(fail(tf.constant(-1.0))) == -1
    assert step.mode_refusal == "XLA drops the checks of the step: Assert"


@pytest.mark.parametrize(
    ("check", "kind"),
    [
        (lambda x: tf.debugging.check_numerics(x, "x"), "CheckNumerics"),
        (lambda x: tf.debugging.assert_less(x, 9.0), "Assert"),
        (lambda x: tf.while_loop(lambda n: n < 2.0, one_more, [x[0]]), "Assert"),
    ],
)
def test_checks_of_the_user_s_are_seen(check, kind):
    def step(x):
        check(x)
        return x

    traced = tf.function(step).get_concrete_function(tf.ones(2))
    assert dropped_checks_refusal(traced) == f"XLA drops the checks of the step: {kind}"


def one_more(n):
    tf.debugging.assert_positive(n)
    return n + 1


def test_shapes_that_tensorflow_checks_are_not_missed():
    @tf.function(input_signature=[tf.TensorSpec((None, 3)), tf.TensorSpec((None, 3, 5))])
    def step(labels, logits):
        labels = tf.cast(labels, tf.int32)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    traced = step.get_concrete_function()
    assert "Assert" in str(traced.graph.as_graph_def())
    assert dropped_checks_refusal(traced) == ""


def test_an_error_of_the_step_s_own_is_raised():
    @tf.function
    def fail(x):
        if x.shape[0] != 2:
            raise ValueError(f"no such shape: {x.shape}")
        return x

    step = CompiledStep(fail)
    step.mode = StepMode.XLA
    assert fail(tf.ones(2)).shape == 2
    with pytest.raises(ValueError, match="no such shape"):
        fail(tf.ones(3))
    assert step.mode_refusal == ""


def test_an_error_that_passes_while_it_is_traced_is_not_the_user_s():
    """Memory that is full for a moment: nothing of the step was done, so it is done as written."""
    errors = []

    @tf.function
    def double(x):
        if errors:
            raise errors.pop()
        return 2 * x

    step = CompiledStep(double)
    double(X)
    step.mode = StepMode.ANY_SHAPE
    errors.append(tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"))
    np.testing.assert_array_equal(double(X), 2 * X)
    assert "ResourceExhausted" in step.mode_refusal


def test_ctrl_c_while_it_is_checked_leaves_it_unchecked(monkeypatch):
    dense = keras.layers.Dense(1)
    dense.build((None, 3))
    step = tf.function(lambda x: tf.cast(dense(x), dense.compute_dtype))
    taken = CompiledStep(step)
    step(X)
    taken.mode = StepMode(policy="mixed_bfloat16")

    def interrupted(*traced):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("uncork.training.loop_step.loop_step.precision_refusal", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(X)
    assert step(X).dtype == tf.float32
    assert "dtype of the step's result" in taken.mode_refusal


def test_inside_another_function_it_is_left_alone():
    inner = tf.function(lambda x: 2 * x)
    step = CompiledStep(inner)
    step.mode = StepMode.XLA
    step.is_recording = True
    assert int(tf.function(lambda x: inner(x) + 1)(tf.constant(3))) == 7
    assert step.recorded_calls == []


def test_its_calls_are_recorded():
    step = CompiledStep(tf.function(lambda x, scale: x * scale))
    step.is_recording = True
    step(tf.constant(3.0), scale=2.0)
    ((args, kwargs),) = step.recorded_calls
    assert (float(args[0]), kwargs) == (3.0, {"scale": 2.0})


def test_a_digest_of_its_code():
    assert function_code_digest(Training().step) == function_code_digest(Training().step) != ""
    assert function_code_digest(tf.function(lambda x: x + 1)) != function_code_digest(
        tf.function(lambda x: x + 2)
    )
    assert function_code_digest(lambda x: x) == ""


def halved(x):
    return x / 2


def doubled(x):
    return x * 2


@pytest.mark.parametrize("called", ["helper", "method", "function of TensorFlow's"])
def test_what_a_step_calls_is_part_of_its_code(called, monkeypatch):
    class Step:
        @tf.function
        def step(self, x):
            return self.scaled(x)

        def scaled(self, x):
            return halved(x)

    @tf.function
    def step(x):
        return helper(x)

    owner = Step()  # a method's function holds it weakly
    function = owner.step if called == "method" else step
    before = function_code_digest(function)
    if called == "method":
        Step.scaled = doubled
    else:
        monkeypatch.setitem(
            globals(), "helper", doubled if called == "helper" else tf.function(doubled)
        )
    assert function_code_digest(function) != before


helper = halved


def test_a_strict_plan_is_not_put_out_of_force_in_silence():
    def refuse(how, why):
        raise RuntimeError(f"{how}: {why}")

    careful = tf.function(lambda x: tf.debugging.check_numerics(x, "x"), autograph=False)
    step = CompiledStep(careful, refuse)
    step.mode = StepMode.XLA
    with pytest.raises(RuntimeError, match="unmodified: XLA drops the checks"):
        careful(tf.constant(1.0))


def test_another_method_of_the_same_class_is_another_step():
    """Both reach all code of the class; only one of them was proved."""

    class Trainer:
        @tf.function
        def train_step(self, x):
            return self.scaled(x)

        @tf.function
        def test_step(self, x):
            return self.scaled(x)

        def scaled(self, x):
            return halved(x)

    trainer = Trainer()
    assert function_code_digest(trainer.train_step) == function_code_digest(Trainer().train_step)
    assert function_code_digest(trainer.train_step) != function_code_digest(trainer.test_step)


def test_numbers_that_change_are_handed_over_as_tensors():
    traced = []

    @tf.function
    def scaled(x, rate, depth=2, *, flag=True):
        traced.append(rate)
        return tf.reduce_sum(x) * rate + tf.reduce_sum(tf.one_hot(0, depth))

    step = CompiledStep(scaled)
    step.is_examined = True
    expected = [float(scaled(X, n / 8, flag=n > 4)) for n in range(8)]
    assert step.number_arguments == ("rate",)
    step.mode = StepMode(tensor_arguments=step.number_arguments)
    before = len(traced)
    assert [float(scaled(X, n / 8, flag=n > 4)) for n in range(8)] == pytest.approx(expected)
    assert float(scaled(X, rate=0.5)) == pytest.approx(expected[4])
    assert len(traced) - before <= 4, "two for the Boolean, two for the way of handing over"
    assert step.mode_refusal == ""


def test_a_step_that_needs_the_number_itself_goes_on_as_written():
    heard = []
    scaled = tf.function(lambda x, n: tf.reduce_sum(x) * {0: 1.0, 1: 2.0}[n % 2])
    step = CompiledStep(scaled, lambda how, why: heard.append(how))
    expected = [float(scaled(X, n)) for n in range(4)]
    step.mode = StepMode(tensor_arguments=("n",))
    assert [float(scaled(X, n)) for n in range(4)] == expected
    assert heard == ["unmodified"]


class Other(Training):
    def __init__(self):
        super().__init__()
        self.model = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(8, "exponential"), keras.layers.Dense(1)]
        )


@pytest.mark.every(3)
@pytest.mark.parametrize("mode", [StepMode.XLA, StepMode(policy="mixed_bfloat16")])
def test_a_step_that_computes_something_else_is_left_as_it_is(mode):
    """The same code, which finds another model by name: what was proved was not proved of it."""
    looked_at, heard = Training(), []
    step = CompiledStep(looked_at.step)
    step.is_examined, step.mode = True, mode
    trained(looked_at)
    known = frozenset(step.graph_digests)
    step.restore()
    for training, refused in ((Training(), False), (Other(), True)):
        planned = CompiledStep(training.step, lambda _, why: heard.append(why))
        planned.mode, planned.expected_graph_digests = mode, known
        trained(training)
        assert bool(planned.mode_refusal) is refused, planned.mode_refusal
        planned.restore()
    (why,) = heard
    assert "computes something else than when the plan was made" in why


@pytest.mark.deep
@pytest.mark.every(3)
@pytest.mark.parametrize(
    "mode", [StepMode.XLA, StepMode.ANY_SHAPE, StepMode(policy="mixed_bfloat16")]
)
def test_batches_may_be_of_any_length(mode):
    """As long as the longest text: none of these was seen while it was tuned."""
    looked_at, training = Training(), Training()
    step = CompiledStep(looked_at.step)
    step.is_examined, step.mode = True, mode
    for rows in (3, 8, 5):
        looked_at.step(X[:rows], Y[:rows])
    step.restore()
    planned = CompiledStep(training.step)
    planned.mode, planned.expected_graph_digests = mode, frozenset(step.graph_digests)
    for rows in (7, 6, 2):
        training.step(X[:rows], Y[:rows])
    assert planned.mode_refusal == ""
    planned.restore()
