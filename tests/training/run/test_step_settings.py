from __future__ import annotations

import copy
import threading
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from training.models import X, Y, mlp
from uncork.core.base.errors import EditRefused
from uncork.core.edits.step import (
    DtypePolicy,
    JitCompile,
    JitCompileOff,
    StepsPerExecution,
    VectorizedMapFn,
)
from uncork.training.precision.dtype_policies import dtype_policies
from uncork.training.run.edit_checks import check_edits
from uncork.training.run.planned_step import PlannedStep
from uncork.training.run.step_settings import StepSettings, apply_step_edits
from uncork.training.state.model_build import watch_late_built_layers
from uncork.training.state.snapshot import read_weights
from uncork.training.tracing import xla_support as xla
from uncork.training.tracing.dropped_checks import dropped_checks_refusal_of_fit

BFLOAT16 = DtypePolicy(policy="mixed_bfloat16")
CHAIN = StepsPerExecution(steps=3)
ALL = (CHAIN, JitCompile(), BFLOAT16)
RELEASE = tuple(int(part) for part in keras.__version__.split(".")[:2])


def state(model) -> tuple:
    return (
        model.steps_per_execution,
        model.jit_compile,
        dtype_policies(model),
        tuple(layer.dtype_policy for layer in model._flatten_layers()),
    )


FLOAT32 = DtypePolicy(policy="float32")


@pytest.mark.parametrize(
    "layer",
    [keras.layers.RandomRotation(0.1), keras.Sequential([keras.layers.RandomRotation(0.1)])],
    ids=["by itself", "in a model of its own"],
)
def test_a_layer_that_xla_does_not_compile_is_named(layer):
    """Keras would warn, and train on without XLA: a trial would compare a step with itself."""
    model = keras.Sequential([keras.Input((8, 8, 3)), layer, keras.layers.Flatten()])
    model.compile("sgd", "mse")
    with pytest.raises(EditRefused, match=r"XLA cannot compile RandomRotation \('random_rot"):
        StepSettings(model, (JitCompile(),))


def test_xla_is_left_out_inside_and_is_back_outside():
    model = mlp(jit_compile=True)
    before = state(model)
    with StepSettings(model, (JitCompileOff(),)).active():
        assert model.jit_compile is False
    assert state(model) == before
    with pytest.raises(EditRefused, match="without XLA"):
        StepSettings(mlp(), (JitCompileOff(),))


def test_xla_is_left_alone_where_op_determinism_is_on(monkeypatch):
    monkeypatch.setattr(xla, "is_op_determinism_enabled", lambda: True)
    with pytest.raises(EditRefused, match="determinism"):
        StepSettings(mlp(), (JitCompile(),))


@pytest.mark.every(2)
@pytest.mark.skipif(
    RELEASE < (3, 10), reason="Keras before 3.10 writes the casts between layers into the model"
)
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_a_model_of_mixed_precision_computes_in_float32_and_back(policy):
    keras.utils.set_random_seed(1)
    model = mlp(keras.layers.Dense(4, dtype=policy))
    keras.utils.set_random_seed(1)
    native = mlp(keras.layers.Dense(4))
    before = state(model)
    with StepSettings(model, (FLOAT32,)).active():
        assert dtype_policies(model) == ("float32",)
        model.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
    native.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
    for ours, theirs in zip(read_weights(model), read_weights(native), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert state(model)[0] == before[0]


class MakesLater(keras.layers.Layer):
    def build(self, shape):
        self.inner = keras.layers.Dense(shape[-1])
        self.inner.build(shape)

    def call(self, x):
        return self.inner(x)


class AddsWeight(keras.layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],))

    def call(self, x):
        return x * self.scale


@pytest.mark.parametrize(
    ("layer", "makes"),
    [(MakesLater, True), (AddsWeight, False), (lambda: keras.layers.Dense(4), False)],
)
def test_layers_that_make_others_when_they_are_built_are_told(layer, makes):
    model = keras.Sequential([layer(), keras.layers.Dense(2)])
    made = watch_late_built_layers(model)
    assert not made()
    model(X)
    assert made() is makes


@pytest.mark.parametrize("policy", ["float32", "float64", "bfloat16", "float16"])
def test_weights_that_are_no_float32_are_not_made_so(policy):
    model = mlp(keras.layers.Dense(4, dtype=policy))
    with pytest.raises(EditRefused, match=policy):
        check_edits(model, (FLOAT32,))


@pytest.mark.parametrize("edits", [(), (CHAIN,), (JitCompile(),), (BFLOAT16,), ALL])
def test_settings_are_in_force_inside_and_gone_outside(edits):
    model = mlp(keras.layers.BatchNormalization())
    before, function = state(model), model.train_function
    with StepSettings(model, edits).active():
        assert model.steps_per_execution == (3 if CHAIN in edits else 1)
        assert model.jit_compile is (JitCompile() in edits)
        inside = "mixed_bfloat16" if BFLOAT16 in edits else "float32"
        assert {layer.dtype_policy.name for layer in model.layers} == {inside}
        assert model.train_function is not None
    assert state(model) == before
    assert model.train_function is function


def test_an_error_inside_takes_them_out_as_well():
    model = mlp()
    before = state(model)
    with pytest.raises(ZeroDivisionError), StepSettings(model, ALL).active():
        raise ZeroDivisionError
    assert state(model) == before


def test_the_compiled_function_is_kept():
    model = mlp()
    settings = StepSettings(model, (CHAIN,))
    functions = []
    for _ in range(2):
        with settings.active():
            functions.append(model.train_function)
    assert functions[0] is functions[1]
    with StepSettings(model, (CHAIN,)).active():
        assert model.train_function is not functions[0]


def test_the_users_own_settings_come_through():
    model = mlp(steps_per_execution=5)
    with StepSettings(model, (JitCompile(),)).active():
        assert (model.steps_per_execution, model.jit_compile) == (5, True)


def test_layers_to_keep_are_kept():
    model = mlp()
    name = model.layers[-1].name
    with StepSettings(
        model, (DtypePolicy(policy="mixed_bfloat16", float32_layers=(name,)),)
    ).active():
        assert [layer.dtype_policy.name for layer in model.layers] == [
            "mixed_bfloat16",
            "float32",
        ]


def test_layers_to_keep_that_the_model_does_not_have_are_refused():
    with pytest.raises(EditRefused, match="no layer with the name gone"):
        StepSettings(mlp(), (DtypePolicy(policy="mixed_bfloat16", float32_layers=("gone",)),))


def test_weights_stay_float32_and_as_they_are():
    model = mlp()
    before = read_weights(model)
    with StepSettings(model, (BFLOAT16,)).active():
        assert all(w.dtype == np.float32 for w in read_weights(model) if w.dtype.kind == "f")
    for ours, held in zip(read_weights(model), before, strict=True):
        np.testing.assert_array_equal(ours, held)


def test_a_switched_model_is_the_one_built_under_the_policy():
    keras.utils.set_random_seed(1)
    model = mlp(keras.layers.LayerNormalization())
    keras.utils.set_random_seed(1)
    with_policy = keras.dtype_policies.get("mixed_bfloat16")
    keras.config.set_dtype_policy(with_policy)
    try:
        native = mlp(keras.layers.LayerNormalization())
    finally:
        keras.config.set_dtype_policy("float32")
    apply_step_edits(model, (BFLOAT16,))
    for each in (model, native):
        each.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
    for ours, theirs in zip(read_weights(model), read_weights(native), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_normalization_computes_alike_before_and_after():
    model = mlp(keras.layers.Normalization(mean=[0.5] * 8, variance=[4.0] * 8))
    before = model.predict(X, verbose=0)
    with StepSettings(model, (BFLOAT16,)).active():
        pass
    np.testing.assert_array_equal(model.predict(X, verbose=0), before)


@pytest.mark.parametrize("edit", ALL)
def test_an_eager_model_is_left_alone(edit):
    with pytest.raises(EditRefused, match="run_eagerly"):
        StepSettings(mlp(run_eagerly=True), (edit,))


def test_an_eager_model_can_be_looked_at_compiled():
    eagerly = []

    class Watch(keras.layers.Layer):
        def call(self, x):
            eagerly.append(tf.executing_eagerly())
            return x

    model = mlp(Watch(), run_eagerly=True)
    batches = tf.data.Dataset.from_tensors((X, Y))
    with StepSettings(model, is_compiled=True).active():
        eagerly.clear()
        model.train_function(iter(batches))
        assert set(eagerly) == {False}
    eagerly.clear()
    model.fit(batches, verbose=0)
    assert set(eagerly) == {True}


def test_steps_per_execution_of_the_users_own_are_kept():
    with pytest.raises(EditRefused, match="is already 5"):
        check_edits(mlp(steps_per_execution=5), (CHAIN,))


@pytest.mark.parametrize("policy", ["mixed_float16", "float64", "bfloat16"])
def test_a_policy_of_the_users_own_is_kept(policy):
    model = mlp(keras.layers.Dense(4, dtype=policy))
    with pytest.raises(EditRefused, match=policy):
        check_edits(model, (BFLOAT16,))


@pytest.mark.every(5, first=4)
@pytest.mark.parametrize("edits", [(), (CHAIN,), (JitCompile(),), (BFLOAT16,), ALL])
def test_a_model_is_given_back_as_written(edits):
    model = mlp()
    before = state(model)
    configure = keras.layers.Layer.get_config
    with PlannedStep(model, edits).active():
        model.fit(X, Y, batch_size=4, verbose=0)
        assert keras.layers.Layer.get_config is not configure
    assert state(model) == before
    assert keras.layers.Layer.get_config is configure
    model.fit(X, Y, batch_size=4, verbose=0)
    model.predict(X, verbose=0)


class SaveEachEpoch(keras.callbacks.Callback):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def on_epoch_end(self, epoch, logs=None) -> None:
        self.model.save(self.path)


@pytest.mark.deep
@pytest.mark.every(2)
@pytest.mark.parametrize(
    "callback", [SaveEachEpoch, keras.callbacks.ModelCheckpoint], ids=["own", "Keras's"]
)
def test_what_is_saved_meanwhile_has_the_users_settings(tmp_path, callback):
    path = tmp_path / "model.keras"
    model = mlp()
    with PlannedStep(model, ALL).active():
        model.fit(X, Y, batch_size=4, epochs=2, verbose=0, callbacks=[callback(path)])
        assert model.layers[0].dtype_policy.name == "mixed_bfloat16"
        assert (model.steps_per_execution, model.jit_compile) == (3, True)
    loaded = keras.saving.load_model(path)
    assert dtype_policies(loaded) == ("float32",)
    assert (loaded.steps_per_execution, loaded.jit_compile) == (1, False)
    for ours, theirs in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_saving_does_not_compile_anew(tmp_path):
    model = mlp()
    with PlannedStep(model, (CHAIN,)).active():
        model.fit(X, Y, batch_size=4, verbose=0)
        function = model.train_function
        model.save(tmp_path / "model.keras")
        model.export(tmp_path / "exported", verbose=False)
        assert model.train_function is function


@pytest.mark.deep
@pytest.mark.every(4)
@pytest.mark.parametrize(
    "saved",
    [
        lambda model, path: model.save(path),
        keras.saving.save_model,
        lambda model, path: keras.models.clone_model(model).save(path),
        lambda model, path: copy.deepcopy(model).save(path),
    ],
    ids=["save", "save_model", "clone_model", "deepcopy"],
)
def test_what_callbacks_save_of_a_part_is_as_written_too(tmp_path, saved):
    encoder = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3, name="inner")])
    model = mlp(encoder)
    path = tmp_path / "encoder.keras"
    with PlannedStep(model, ALL).active():
        model.fit(X, Y, batch_size=4, verbose=0)
        assert encoder.layers[0].dtype_policy.name == "mixed_bfloat16"
        saved(encoder, path)
    assert dtype_policies(keras.saving.load_model(path)) == ("float32",)


@keras.saving.register_keras_serializable("uncork-tests")
class Plain(keras.layers.Layer):
    """Without a get_config: Keras writes down what it was made with."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.inner = keras.layers.Dense(units)

    def call(self, x):
        return self.inner(x)


@keras.saving.register_keras_serializable("uncork-tests")
class Telling(Plain):
    """Writes its policy down itself, without asking Keras."""

    def get_config(self):
        return {"units": self.inner.units, "policy": self.dtype_policy.name}

    @classmethod
    def from_config(cls, config):
        assert config.pop("policy") == "float32"
        return cls(**config)


@pytest.mark.every(2)
@pytest.mark.parametrize("layer", [Plain, Telling])
def test_layers_of_the_user_s_own_are_saved_as_ever(tmp_path, layer):
    model = mlp(layer(5))
    with PlannedStep(model, ALL).active():
        model.fit(X, Y, batch_size=4, verbose=0)
        model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.layers[1].inner.units == 5
    assert dtype_policies(loaded) == ("float32",)


def test_what_the_user_has_traced_anew_is_traced_anew():
    model = mlp()
    planned, traced = PlannedStep(model, (CHAIN,)), []
    for again in range(2):
        with planned.active():
            model.fit(X, Y, batch_size=4, verbose=0)
            traced.append(model.train_function)
        if not again:
            model.make_train_function(force=True)
    assert traced[0] is not traced[1]


def test_an_exported_graph_computes_as_written(tmp_path):
    model = mlp()
    with PlannedStep(model, (BFLOAT16,)).active():
        model.fit(X, Y, batch_size=4, verbose=0)
        model.export(tmp_path / "exported", verbose=False)
        assert model.layers[0].dtype_policy.name == "mixed_bfloat16"
    loaded = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(loaded.serve(tf.constant(X)), model(X), rtol=1e-5)


def test_saving_that_fails_leaves_the_training_as_it_was(tmp_path):
    model = mlp()
    with PlannedStep(model, ALL).active():
        with pytest.raises(ValueError, match="filepath"):
            model.save(tmp_path / "model.unknown")
        assert model.layers[0].dtype_policy.name == "mixed_bfloat16"
    assert dtype_policies(model) == ("float32",)


def test_an_error_in_training_gives_the_model_back():
    model = mlp()
    before = state(model)

    def broken() -> None:
        with PlannedStep(model, ALL).active():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    assert state(model) == before


def test_a_step_can_go_without_its_metrics():
    model = mlp()
    batches = tf.data.Dataset.from_tensors((X[:4], Y[:4])).repeat()
    with StepSettings(model, has_metrics=False).active():
        assert set(model.train_function(iter(batches))) == {"loss"}
    assert set(model.fit(batches, steps_per_epoch=1, verbose=0).history) == {"loss", "mae"}


class Asking(keras.callbacks.Callback):
    """Looks at what the model says of two batches, in three ways."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_epoch_end(self, epoch, logs=None):
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)
        said = self.model(X[:4])
        predicted = self.model.predict(data, steps=1, verbose=0)
        judged = self.model.evaluate(data, steps=2, verbose=0, return_dict=True)
        assert np.array_equal(self.model.predict_on_batch(X[:4]), predicted)
        first = self.model.test_on_batch(X[:4], Y[:4], return_dict=True)["loss"]
        self.seen.append((said.dtype, said.numpy(), predicted, (judged["loss"], first)))


class Scoring(keras.callbacks.Callback):
    """Scores the model by a function of its own, which is a graph."""

    def __init__(self):
        super().__init__()
        self.seen = []
        self.score = tf.function(lambda x, y: self.model(x, training=False) - y)

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(self.score(tf.constant(X[:4]), tf.constant(Y[:4])).numpy())


def test_functions_of_callbacks_ask_the_model_as_its_author_wrote_it():
    ours, model = Scoring(), mlp()
    with PlannedStep(model, (BFLOAT16,)).active():
        model.fit(X, Y, epochs=2, batch_size=4, verbose=0, callbacks=[ours])
        assert model.layers[0].dtype_policy.name == "mixed_bfloat16"
    expected = model(X[:4], training=False) - Y[:4]
    np.testing.assert_allclose(ours.seen[-1], expected, rtol=1e-5, atol=1e-6)
    assert ours.seen[-1].dtype == np.float32


class SavingBeside(keras.callbacks.Callback):
    """Saves in a thread while the training goes on, and asks what it trains by then."""

    def __init__(self, path):
        super().__init__()
        self.path, self.threads, self.missing = path, [], 0

    def on_epoch_end(self, epoch, logs=None):
        save = threading.Thread(target=self.model.save, args=(self.path,))
        self.threads.append(save)
        save.start()
        while save.is_alive():
            self.missing += self.model.train_function is None
            time.sleep(0.001)


def test_what_saves_in_a_thread_leaves_the_training_its_function(tmp_path):
    saving, model = SavingBeside(tmp_path / "model.keras"), mlp()
    with PlannedStep(model, (CHAIN,)).active():
        model.fit(X, Y, epochs=3, batch_size=4, verbose=0, callbacks=[saving])
    assert len(saving.threads) == 3
    assert saving.missing == 0


@pytest.mark.deep
@pytest.mark.every(2)
@pytest.mark.parametrize("edits", [(CHAIN,), (CHAIN, BFLOAT16)])
def test_callbacks_ask_the_model_as_its_author_wrote_it(edits):
    ours, theirs = Asking(), Asking()
    keras.utils.set_random_seed(5)
    planned_model = mlp()
    with PlannedStep(planned_model, edits).active():
        planned_model.fit(X, Y, epochs=2, batch_size=4, shuffle=False, verbose=0, callbacks=[ours])
    keras.utils.set_random_seed(5)
    model = mlp()
    model.fit(X, Y, epochs=2, batch_size=4, shuffle=False, verbose=0, callbacks=[theirs])
    for (dtype, said, predicted, judged), (_, other, expected, loss) in zip(
        ours.seen, theirs.seen, strict=True
    ):
        assert dtype == tf.float32
        assert predicted.dtype == np.float32
        assert predicted.shape == expected.shape
        if BFLOAT16 not in edits:
            assert np.array_equal(said, other)
            assert np.array_equal(predicted, expected)
            assert judged == loss
    assert "predict" not in vars(keras.Model)
    assert planned_model.predict_function is not None


def test_what_xla_would_leave_out_of_a_fit_is_told():
    class Checked(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x):
            return tf.debugging.check_numerics(self.dense(x), "too large")

    checked, plain = Checked(), mlp()
    for model in (checked, plain):
        model.compile("sgd", "mse")
        model.fit(X, Y, verbose=0)
    assert "CheckNumerics" in dropped_checks_refusal_of_fit(checked)
    assert dropped_checks_refusal_of_fit(plain) == ""
    plain.evaluate(X, Y, verbose=0)  # another step, traced later
    assert "CheckNumerics" in dropped_checks_refusal_of_fit(checked)


class Looks(keras.layers.Layer):
    """Takes whole numbers, so a trace of it fits whatever its policy is."""

    def __init__(self) -> None:
        super().__init__()
        self.table = keras.layers.Embedding(9, 4)

    @tf.function
    def call(self, words):
        return self.table(words)


@pytest.mark.parametrize("edit", [DtypePolicy(policy="mixed_bfloat16"), VectorizedMapFn()])
def test_a_layer_that_keeps_its_traces_is_left(edit):
    model = keras.Sequential([keras.Input((3,), dtype="int32"), Looks(), keras.layers.Flatten()])
    model.compile("sgd", "mse")
    words = np.ones((2, 3), "int32")
    before = model.predict(words, verbose=0)
    with pytest.raises(EditRefused, match=r"'call' of 'looks.*' is a tf.function"):
        StepSettings(model, (edit,))
    assert np.array_equal(model.predict(words, verbose=0), before)
