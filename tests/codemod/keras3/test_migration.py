"""What Keras 3 no longer has: what takes its place is written, and means the same."""

from __future__ import annotations

import numpy as np
import pytest

from codemod.scripts import script
from uncork.codemod.keras3.migration import build_keras3_patch
from uncork.pycode.syntax.removed_apis import suggest_replacement

SCALED = script("""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.01))


    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
            scaled_loss = optimizer.get_scaled_loss(loss)
        gradients = tape.gradient(scaled_loss, model.trainable_variables)
        gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss
    """)


def after(text: str) -> str:
    patch = build_keras3_patch(script(text).encode(), "train.py")
    assert patch.omitted == ()
    return patch.after.decode()


def losses(text: str) -> list[float]:
    names: dict[str, object] = {}
    exec(text, names)
    x = np.linspace(-1, 1, 32, dtype="float32").reshape(8, 4)
    return [float(names["train_step"](x, x[:, :1])) for _ in range(4)]


def test_a_scaled_loss_trains_as_one_without_scale() -> None:
    """The scale is a power of two: in float32 it changes no bit."""
    plain = SCALED.replace("optimizer.get_scaled_loss(loss)", "loss").replace(
        "optimizer.get_unscaled_gradients(gradients)", "gradients"
    )
    plain = plain.replace("keras.mixed_precision.LossScaleOptimizer(", "(")
    ours = after(SCALED)
    assert "get_" not in ours
    # AutoGraph reads functions from files: these have none, and need none.
    as_written = "@tf.function", "@tf.function(autograph=False)"
    found = [losses(text.replace(*as_written)) for text in (ours, plain)]
    assert found[0] == found[1]
    assert found[0][-1] < found[0][0]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("m.fit_generator(g(), epochs=2)", "m.fit(g(), epochs=2)"),
        ("m.fit_generator(generator=g(), workers=4)", "m.fit(x=g())"),
        (
            "m.fit_generator(g(),\n    epochs=5,  # enough\n    workers=4)",
            "m.fit(g(),\n    epochs=5  # enough\n    )",
        ),
        ("m.predict_generator(g(), steps=2)", "m.predict(g(), steps=2)"),
        ("m.fit(d, workers=4, epochs=2)", "m.fit(d, epochs=2)"),
        ("m.compile('sgd', experimental_steps_per_execution=4)", None),
        ("s.experimental_run_v2(f, args=(1,))", "s.run(f, args=(1,))"),
        (
            "tf.keras.mixed_precision.experimental.set_policy('mixed_float16')",
            "tf.keras.mixed_precision.set_global_policy('mixed_float16')",
        ),
        (
            "mixed_precision.experimental.LossScaleOptimizer(o, loss_scale='dynamic')",
            None,
        ),
        ("o.apply_gradients(zip(o.get_unscaled_gradients(g), w)); o.get_scaled_loss(l)", None),
        (
            "from tensorflow.keras.mixed_precision import experimental as mixed_precision\n"
            "mixed_precision.set_policy('mixed_float16')",
            "from tensorflow.keras import mixed_precision\n"
            "mixed_precision.set_global_policy('mixed_float16')",
        ),
        (
            "from keras.mixed_precision import experimental\nexperimental.Policy('float32')",
            "from keras import mixed_precision as experimental\nexperimental.Policy('float32')",
        ),
    ],
)
def test_what_is_called_otherwise(before: str, now: str | None) -> None:
    expected = (
        now
        or {
            "m.c": "m.compile('sgd', steps_per_execution=4)",
            "mix": "mixed_precision.LossScaleOptimizer(o)",
            "o.a": "o.apply_gradients(zip(g, w)); o.scale_loss(l)",
        }[before[:3]]
    )
    assert after(before + "\n") == expected + "\n"


UNSEEN = """
    def step(x):
        g = tape.gradient(o.get_scaled_loss(x), w)
        u = o.get_unscaled_gradients(g)
        {use}
    """


@pytest.mark.parametrize(
    "use",
    [
        "u, _ = tf.clip_by_global_norm(u, 1.0); o.apply_gradients(zip(u, w))",
        "other.apply_gradients(zip(u, w))",
        "return u",
        "pass",
        "o.apply_gradients(zip(u, w)); log(lambda: tf.norm(u))",
        "def clipped(): return tf.clip_by_norm(u, 1.0)\n        o.apply_gradients(zip(u, w))",
        "o.apply_gradients(zip(u, w))\n    def plain(g): o.apply_gradients(zip(g, w))",
    ],
)
def test_where_somebody_else_sees_the_gradients_the_script_is_left(use: str) -> None:
    patch = build_keras3_patch(script(UNSEEN.format(use=use)).encode(), "train.py")
    assert patch.after == patch.before
    assert patch.omitted[0].name.startswith("train.py:")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "g = o.get_unscaled_gradients(g)\no.apply_gradients(zip(g, w))\n",
            "does not call get_scaled_loss",
        ),
        ("o.get_scaled_loss(x)\n", "does not call get_unscaled_gradients"),
        (
            "m.compile(experimental_steps_per_execution=4, steps_per_execution=2)\n",
            "passes both",
        ),
        ("m.fit_generator(g(), 10)\n", "pass the arguments"),
        ("m.fit_generator(*both, epochs=2)\n", "with * or **"),
        ("m.fit_generator(**settings)\n", "with * or **"),
        ("mixed_precision.experimental.LossScaleOptimizer(o, loss_scale=128)\n", "loss_scale=128"),
        ("tf.keras.mixed_precision.experimental.Policy(**settings)\n", "write its arguments out"),
        ("def fit(data, workers): ...\nagent.fit(data, workers=8)\n", "its own fit on line 1"),
        ("def fit_generator(g): ...\nagent.fit_generator(g)\n", "its own fit_generator"),
    ],
)
def test_what_is_not_mechanical_is_told(text: str, reason: str) -> None:
    patch = build_keras3_patch(text.encode(), "train.py")
    assert patch.after == patch.before
    assert reason in patch.omitted[0].reason


def test_a_block_of_one_line_stays_a_block() -> None:
    text = UNSEEN.replace("u = o.get", "if True:\n            g = o.get").replace(
        "{use}", "o.apply_gradients(zip(g, w))"
    )
    assert "if True:\n        pass\n" in after(text)


def test_a_block_on_the_line_of_its_if_stays_one() -> None:
    text = UNSEEN.replace("u = o.get", "if True: g = o.get").replace(
        "{use}", "o.apply_gradients(zip(g, w))"
    )
    assert "if True: g = g\n" in after(text)


def test_a_script_of_today_is_left_alone() -> None:
    patch = build_keras3_patch(after(SCALED).encode(), "train.py")
    assert patch.included == patch.omitted == ()
    assert patch.diff("train.py") == b""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("no attribute 'get_scaled_loss'", SCALED),
        ("no attribute 'get_unscaled_gradients'", SCALED),
        (
            "mixed_precision' has no attribute 'experimental'",
            "mixed_precision.experimental.set_policy(p)",
        ),
        (
            "cannot import name 'experimental' from 'tensorflow.keras.mixed_precision' (/a/b.py)",
            "from tensorflow.keras.mixed_precision import experimental",
        ),
        ("fit() got an unexpected keyword argument 'workers'", "m.fit(d, workers=2)"),
        ("fit() got an unexpected keyword argument 'max_queue_size'", "m.fit(d, max_queue_size=2)"),
        ("no attribute 'evaluate_generator'", "m.evaluate_generator(g())"),
        ("no attribute 'experimental_run_v2'", "s.experimental_run_v2(f)"),
        (
            "unexpected keyword argument 'experimental_steps_per_execution'",
            "m.compile(experimental_steps_per_execution=2)",
        ),
    ],
)
def test_where_a_patch_is_promised_below_a_traceback_there_is_one(error: str, text: str) -> None:
    assert suggest_replacement(error, "my train.py").endswith(
        "as a patch: uncork diff 'my train.py'"
    )
    assert build_keras3_patch(text.encode(), "train.py").included


@pytest.mark.parametrize("error", ["no attribute 'multi_gpu_model'", "'loss_scale'", ""])
def test_elsewhere_none_is_promised(error: str) -> None:
    assert "uncork diff" not in suggest_replacement(error, "train.py")
