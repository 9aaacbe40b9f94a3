"""Models that run eagerly: watched, run as graphs, and taken back when what they read changes."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import JitCompile, StepsPerExecution, TfFunction
from uncork.training.run.edit_checks import check_edits
from uncork.training.run.step_settings import StepSettings
from uncork.training.transforms.eager_model import check_traceable, create_guards, train_as_graph

X, Y = np.ones((32, 3), "float32"), np.ones((32, 1), "float32")


class Scaled(keras.layers.Layer):
    factor = 1.0

    def call(self, x):
        return x * self.factor


class Counting(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def call(self, x):
        self.seen += 1
        return x


class Printing(keras.layers.Layer):
    def call(self, x):
        print("a batch")
        return x


class OwnStep(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((y - self(x, training=True)) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


def own_loss(y, y_pred):
    return keras.ops.mean((y - y_pred) ** 2)


def model(*layers, loss="mse"):
    keras.utils.set_random_seed(3)
    made = keras.Sequential(
        [keras.Input((3,)), *layers, keras.layers.Dropout(0.5), keras.layers.Dense(1)]
    )
    made.compile("adam", loss, metrics=["mae"], run_eagerly=True)
    return made


def own_step():
    made = OwnStep()
    made.compile("adam", "mse", run_eagerly=True)
    return made


def fitted(made, epochs=1, **options):
    return made.fit(X, Y, batch_size=8, epochs=epochs, verbose=0, **options)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "make",
    [
        model,
        lambda: model(keras.layers.BatchNormalization()),
        lambda: model(Scaled()),
        lambda: model(loss=own_loss),
        lambda: model(keras.layers.Lambda(lambda x: 2 * x)),
        own_step,
    ],
)
def test_a_step_that_computes_alone_may_be_a_graph(make):
    made = make()
    fitted(made)
    refusal, code = check_traceable(made, lambda: fitted(made))
    assert refusal == ""
    check_edits(made, (TfFunction(code_digest=code), JitCompile()))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: model(Counting()), "it changes 'seen' in each step"),
        (lambda: model(Printing()), "it does more than compute: print"),
    ],
)
def test_a_step_that_does_more_may_not(make, words, capsys):
    made = make()
    fitted(made)
    assert check_traceable(made, lambda: fitted(made))[0] == words


def test_nothing_that_keras_does_in_a_fit_counts_as_a_change():
    made = model(Scaled())
    fitted(made)
    guards = create_guards(made)
    stop = keras.callbacks.EarlyStopping("loss", patience=0, min_delta=100.0)
    fitted(made, epochs=3, validation_data=(X, Y), callbacks=[stop])
    made.optimizer.learning_rate = 0.5
    assert guards.find_change() is None


def run_as_graph(made, heard, **options):
    """As ``uncork run`` does it."""
    check_edits(made, (TfFunction(code_digest=create_guards(made).code_digest),))
    with train_as_graph(made, heard.append):
        return fitted(made, **options)


@pytest.mark.every(3)
@pytest.mark.parametrize("make", [model, own_step, lambda: model(Scaled())])
def test_it_trains_as_it_would_eagerly(make):
    heard = []
    eager, graph = make(), make()
    for made in (eager, graph):
        made(X)
    graph.set_weights(eager.get_weights())
    plain = fitted(eager, epochs=3, shuffle=False, validation_data=(X, Y)).history
    found = run_as_graph(graph, heard, epochs=3, shuffle=False, validation_data=(X, Y)).history
    assert heard == []
    assert found.keys() == plain.keys()
    for key, values in plain.items():
        assert found[key] == pytest.approx(values, rel=1e-4), key
    assert graph.run_eagerly
    fitted(graph)  # goes on as the user set it up


def test_what_a_callback_changes_is_seen():
    class Anneal(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            Scaled.factor = 1.0 + epoch

    plain, graph, heard = model(Scaled()), model(Scaled()), []
    try:
        expected = fitted(plain, epochs=3, shuffle=False, callbacks=[Anneal()]).history["loss"]
        Scaled.factor = 1.0
        found = run_as_graph(graph, heard, epochs=3, shuffle=False, callbacks=[Anneal()])
    finally:
        Scaled.factor = 1.0
    assert heard == ["'factor' has changed"]
    assert found.history["loss"] == pytest.approx(expected, rel=1e-4)
    assert graph.run_eagerly


class Annealed(keras.layers.Layer):
    rate = 0.0  # an attribute of the class, until a callback sets one of the layer

    def call(self, x):
        return x + self.rate


class Remembering(keras.layers.Layer):
    def call(self, x):
        self.last = x  # there is no such attribute before the first call
        return x


class Looking(OwnStep):
    def __init__(self):
        super().__init__()
        self.found = []

    def test_step(self, data):
        x, y = data
        found = self(x, training=False)
        self.found.append(found.numpy())
        return {"loss": tf.reduce_mean((y - found) ** 2)}


def test_an_attribute_that_comes_later_is_seen():
    class Anneal(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.layers[0].rate = float(epoch)

    plain, graph, heard = model(Annealed()), model(Annealed()), []
    options = {"epochs": 3, "shuffle": False}
    expected = fitted(plain, callbacks=[Anneal()], **options).history["loss"]
    found = run_as_graph(graph, heard, callbacks=[Anneal()], **options)
    assert heard == ["'rate' has changed"]
    assert found.history["loss"] == pytest.approx(expected, rel=1e-4)


def test_an_attribute_that_is_set_in_the_step_is_seen():
    made = model(Remembering())
    fitted(made)
    assert check_traceable(made, lambda: fitted(made))[0] == "it changes 'last' in each step"


@pytest.mark.every(3)
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_layer_that_is_frozen_is_left_alone(steps):
    class Freeze(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.model.layers[0].trainable = epoch < steps

    keras.utils.set_random_seed(3)
    plain, graph, heard = model(keras.layers.Dense(3)), model(keras.layers.Dense(3)), []
    graph.set_weights(plain.get_weights())
    for made, fit in ((plain, fitted), (graph, lambda m, **o: run_as_graph(m, heard, **o))):
        made.compile("sgd", "mse", run_eagerly=True)
        fit(made, epochs=8, shuffle=False, callbacks=[Freeze()])
    for ours, theirs in zip(graph.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_validation_stays_eager():
    made, heard = Looking(), []
    made.compile("adam", "mse", run_eagerly=True)
    made(X)
    run_as_graph(made, heard, epochs=2, validation_data=(X, Y))
    assert heard == []
    assert len(made.found) == 8
    assert all(isinstance(found, np.ndarray) for found in made.found)


def test_steps_cannot_be_chained_beside_an_eager_validation():
    made = model()
    edits = (TfFunction(code_digest=create_guards(made).code_digest), StepsPerExecution(steps=4))
    with pytest.raises(EditRefused, match="validation"):
        check_edits(made, edits)


def test_a_trial_runs_as_a_graph_and_leaves_no_trace():
    made = model(Scaled())
    settings = StepSettings(made, (TfFunction(code_digest=create_guards(made).code_digest),))
    batches = iter(tf.data.Dataset.from_tensors((X, Y)).repeat())
    with settings.active():
        assert not made.run_eagerly
        made.train_function(batches)
    assert made.run_eagerly


def test_other_code_is_refused():
    with pytest.raises(EditRefused, match="has changed"):
        check_edits(model(Scaled()), (TfFunction(code_digest=create_guards(model()).code_digest),))


def test_a_compiled_model_is_refused():
    made = model()
    made.run_eagerly = False
    with pytest.raises(EditRefused, match="does not run eagerly"):
        check_edits(made, (TfFunction(code_digest=create_guards(made).code_digest),))


class Rows(OwnStep):
    """Asks how many rows a batch has, which a graph for all batches does not know."""

    def train_step(self, data):
        x, y = data
        noise = tf.random.normal((x.shape[0], 1))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((y - self(x, training=True) + 0 * noise) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


def test_what_cannot_be_traced_after_all_goes_on_op_by_op():
    made, heard = Rows(), []
    made.compile("adam", "mse", run_eagerly=True)
    with train_as_graph(made, heard.append):
        made.fit(X[:30], Y[:30], batch_size=8, epochs=2, verbose=0)
    assert int(made.optimizer.iterations) == 8
    (why,) = heard
    assert "tracing the step fails" in why
