from __future__ import annotations

import runpy
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from training.models import OwnStep, Subclassed, dataset, mlp
from uncork.core.base.record import to_json
from uncork.training.run.signature import model_signature
from uncork.training.state.architecture import architecture_digest
from uncork.training.state.model_build import build_model

SCRIPT = """
import keras
from uncork.core.base.record import to_json
from uncork.training.run.signature import model_signature

def squared(y, p):
    return keras.ops.mean(keras.ops.square(y - p))

class Mine(keras.Model):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)

    def train_step(self, data):
        return {"loss": 0.0}

i = keras.Input((6,))
h = keras.layers.Dense(8, activation=lambda x: x * 2)(i)
model = Mine(i, {"a": keras.layers.Dense(2)(h), "b": keras.layers.Dense(2)(h)})
model.compile(
    keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 10), weight_decay=0.1),
    loss={"a": squared, "b": keras.losses.Huber(delta=2.0)},
)
print(to_json(model_signature(model)).decode())
"""


def test_it_is_the_same_in_every_process(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    keras.backend.clear_session(free_memory=False)  # layers are numbered from the first on
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out == done.stdout
    assert "squared" in done.stdout
    assert "Huber" in done.stdout
    assert "0x" not in done.stdout


def wider() -> keras.Model:
    return mlp(keras.layers.Dense(3))


def other_dtype() -> keras.Model:
    return mlp(keras.layers.Dense(8, dtype="mixed_bfloat16"))


def subclassed(kind) -> keras.Model:
    model = kind()
    model.compile("adam", "mse", metrics=["mae"])
    build_model(model, next(iter(dataset())))
    return model


OTHERS = {
    "loss": lambda: mlp(loss="mae"),
    "loss's setting": lambda: mlp(loss=keras.losses.Huber(2.0)),
    "optimizer": lambda: mlp(optimizer="sgd"),
    "optimizer's setting": lambda: mlp(optimizer=keras.optimizers.Adam(beta_1=0.8)),
    "clipping": lambda: mlp(optimizer=keras.optimizers.Adam(clipnorm=1.0)),
    "layer": wider,
    "layer without weights": lambda: mlp(keras.layers.Activation("tanh")),
    "layer's setting": lambda: mlp(keras.layers.Activation("sigmoid")),
    "dtype policy": other_dtype,
    "class": lambda: subclassed(Subclassed),
    "train_step": lambda: subclassed(OwnStep),
}


def test_every_change_is_seen():
    found = [model_signature(make()) for make in (mlp, *OTHERS.values())]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    "make",
    [
        mlp,
        lambda: mlp(metrics=[]),
        lambda: mlp(optimizer=keras.optimizers.Adam(learning_rate=0.5)),
        lambda: mlp(steps_per_execution=4, jit_compile=True),
        lambda: mlp(optimizer=keras.optimizers.Adam(name="mine")),
    ],
)
def test_what_no_plan_depends_on_is_left_out(make):
    assert to_json(model_signature(make())) == to_json(model_signature(mlp()))


def halved(y, p):
    return keras.ops.mean((y - p) ** 2) / 2


def checked(y, p):
    return keras.ops.mean(tf.debugging.check_numerics((y - p) ** 2, "loss")) / 2


def offset(y, p):
    return keras.ops.mean(y - p)


class Doubling(keras.layers.Layer):
    def call(self, inputs):
        return inputs * 2


class Doubled(keras.metrics.Mean):
    def update_state(self, y, p, sample_weight=None):
        return super().update_state(y - p)


def test_code_of_the_user_s_is_told_apart():
    """Of layers, losses and metrics, by what it does and not by where it stands."""
    made = {
        "none": mlp(),
        "loss": mlp(loss=halved),
        "another of its name": mlp(loss=renamed(checked, "halved")),
        "metric": mlp(metrics=[offset, "mae"]),
        "metric's class": mlp(metrics=[Doubled()]),
        "layer": mlp(Doubling()),
        "function of a layer": mlp(keras.layers.Lambda(lambda x: x * 3)),
        "activation": mlp(keras.layers.Activation(lambda x: x * 4)),
        "class": subclassed(Subclassed),
    }
    codes = {name: model_signature(model).code_digest for name, model in made.items()}
    assert codes["none"] == ""
    assert len(set(codes.values())) == len(codes)
    assert model_signature(mlp(loss=halved)).code_digest == codes["loss"]
    assert (
        model_signature(mlp(loss=halved)).loss == model_signature(made["another of its name"]).loss
    )


def renamed(function, name):
    function.__name__ = name
    return function


def test_training_does_not_change_it():
    model = mlp()
    before = model_signature(model)
    model.fit(dataset(), verbose=0)
    assert model_signature(model) == before


def test_an_unbuilt_model_has_no_weights_yet():
    model = Subclassed()
    model.compile("adam", "mse")
    assert (model_signature(model).parameter_count, model_signature(model).variables_digest) == (
        0,
        "",
    )


def test_a_schedule_that_cannot_be_written_down_is_no_obstacle():
    """As in the tutorial on transformers, and in many scripts since."""

    class Warmup(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.1 / (1.0 + keras.ops.cast(step, "float32"))

    def signed(beta):
        model = mlp()
        model.compile(keras.optimizers.Adam(Warmup(), beta_1=beta), "mse")
        found = model_signature(model).optimizer
        model.optimizer.build(model.trainable_variables)
        assert model_signature(model).optimizer == found
        return found

    assert signed(0.9) == signed(0.9)
    assert signed(0.9) != signed(0.8)


def test_rates_are_no_part_of_it_however_deep() -> None:
    """Keras puts its own optimizer around one under ``mixed_float16``."""

    def made(rate: float) -> str:
        model = mlp(optimizer=keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(rate)))
        return model_signature(model).optimizer

    assert made(1e-3) == made(5e-4)
    assert "beta_1" in made(1e-3)


def joined(*, crossed: bool = False, names: str = "") -> keras.Model:
    left, right = keras.Input((4,)), keras.Input((4,))
    first = keras.layers.Dense(4, name=f"{names}one" if names else None)
    second = keras.layers.Dense(4, name=f"{names}two" if names else None)
    x = second(first(left) + right) if not crossed else second(first(left)) + right
    model = keras.Model([left, right], keras.ops.relu(x))
    model.compile("adam", "mse")
    return model


def test_models_of_equal_weights_are_told_apart_by_how_they_are_put_together() -> None:
    plain = model_signature(joined()).architecture_digest
    assert (
        plain == model_signature(joined()).architecture_digest
    )  # the second one's layers have other names
    assert plain == model_signature(joined(names="my_")).architecture_digest
    assert plain != model_signature(joined(crossed=True)).architecture_digest


def test_layers_are_told_apart_before_they_are_built() -> None:
    def unbuilt(activation: str) -> str:
        model = keras.Sequential([keras.layers.Dense(4, activation), keras.layers.Dense(1)])
        model.compile("adam", "mse")
        return model_signature(model).architecture_digest

    assert unbuilt("relu") == unbuilt("relu")
    assert unbuilt("relu") != unbuilt("tanh")


def test_code_and_vocabularies_are_not_written_down() -> None:
    """The line where a function stands is in what Keras would save of it."""
    words = keras.layers.StringLookup(vocabulary=[f"w{n}" for n in range(500)])
    one = keras.Sequential([keras.layers.Lambda(lambda x: x * 3), words])
    other = keras.Sequential(
        [
            keras.layers.Lambda(lambda x: x * 3),
            keras.layers.StringLookup(vocabulary=[f"v{n}" for n in range(500)]),
        ]
    )
    assert architecture_digest(one) == architecture_digest(other)


def test_a_model_that_fit_builds_is_known_before_and_after() -> None:
    """Keras adds an input then, attention makes its layers; and fit may be called again."""

    class Attending(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.attend = keras.layers.MultiHeadAttention(2, 3)
            self.head = keras.layers.Dense(1)

        def call(self, x):
            return self.head(self.attend(x, x))

    def grown() -> keras.Model:
        return keras.Sequential(
            [keras.layers.LSTM(3, return_sequences=True), keras.layers.Dense(1)]
        )

    for make in (Attending, grown):
        model = make()
        model.compile("sgd", "mse")
        before = model_signature(model).architecture_digest
        model.fit(np.ones((4, 5, 6)), np.ones((4, 5, 1)), verbose=0)
        assert model_signature(model).architecture_digest == before == signature_of(make())


def signature_of(model: keras.Model) -> str:
    model.compile("sgd", "mse")
    return model_signature(model).architecture_digest


def test_tables_are_not_written_down_number_by_number(monkeypatch) -> None:
    table = keras.initializers.Constant(np.ones((300, 4)))
    monkeypatch.setattr(type(table), "get_config", lambda _: pytest.fail("all of it"))
    inner = keras.layers.Embedding(300, 4, embeddings_initializer=table)
    assert architecture_digest(keras.Sequential([inner]))


class Branched(keras.Model):
    """Whose layers come behind all others in the order that Keras saves them in."""

    def __init__(self) -> None:
        super().__init__()
        self._value_head = keras.layers.Dense(2)
        self._z_mean = keras.layers.Dense(2)

    def call(self, x):
        return self._value_head(x) + self._z_mean(x)


def test_what_is_remembered_of_a_model_is_not_saved_with_it(tmp_path) -> None:
    model, path = Branched(), tmp_path / "model.weights.h5"
    model.compile("sgd", "mse")
    model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    assert model_signature(model).architecture_digest
    model.save_weights(path)
    other = Branched()
    other(np.ones((1, 3)))
    other.load_weights(path)
    for ours, theirs in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_how_layers_are_called_is_part_of_it() -> None:
    def made(scale: float, *, swapped: bool = False, training: bool = False) -> str:
        left, right = keras.Input((4,)), keras.Input((4,))
        shared = keras.layers.Dense(4)
        one, other = shared(left), shared(right)
        x = (other - one if swapped else one - other) * scale
        return architecture_digest(
            keras.Model([left, right], keras.layers.Dropout(0.5)(x, training=training))
        )

    assert made(2.0) == made(2.0)
    others = {made(2.0), made(1e6), made(2.0, swapped=True), made(2.0, training=True)}
    assert len(others) == 4


def test_what_is_added_and_compiled_anew_is_seen() -> None:
    model = mlp()
    before = model_signature(model).architecture_digest
    model.add(keras.layers.Activation("exponential"))
    model.compile("adam", "mse")
    grown = model_signature(model).architecture_digest
    model.layers[-1].activation = keras.activations.tanh
    model.compile("adam", "mse")
    assert len({before, grown, model_signature(model).architecture_digest}) == 3


class Lazy(keras.Model):
    """Makes its layer when it is built."""

    def build(self, shape) -> None:
        self.head = keras.layers.Dense(shape[-1])
        super().build(shape)

    def call(self, x):
        return self.head(x)


def test_layers_that_are_made_while_it_is_built_make_no_other_model() -> None:
    model = Lazy()
    model.compile("sgd", "mse")
    before = model_signature(model).architecture_digest
    model.fit(np.ones((4, 3)), np.ones((4, 3)), verbose=0)
    assert model_signature(model).architecture_digest == before


def test_what_lies_in_one_of_keras_s_wrappers_is_read() -> None:
    def each(rate: float) -> str:
        given = keras.Input((3,))
        made = keras.layers.Dropout(rate)(keras.layers.Dense(2)(given))
        body = keras.Model(given, made)
        return architecture_digest(keras.Sequential([keras.layers.TimeDistributed(body)]))

    assert each(0.1) == each(0.1)
    assert each(0.1) != each(0.9)
